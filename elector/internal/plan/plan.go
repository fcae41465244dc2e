package plan

// Plan returns what the cluster asks of this node.
func Plan(in Input) Output {
	return Output{}
}
