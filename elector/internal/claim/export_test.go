package claim

// Weaken takes a rule out of a machine, so that the model can show that it
// finds a fault without it.
func (m *Machine) Weaken(rule string) {
	m.flaws = flaws{
		noForfeit: rule == "forfeit", noOrder: rule == "order", noLagGuard: rule == "lag", noMute: rule == "mute",
		noTwin: rule == "twin",
	}
}
