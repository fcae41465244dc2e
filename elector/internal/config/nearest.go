package config

import "strings"

// didYouMean ends a sentence about an unknown setting.
func didYouMean(key string) string {
	if name := nearest(key); name != "" {
		return ": did you mean " + name + "?"
	}
	return ""
}

// nearest returns the setting whose name, or whose flag's name, takes the
// fewest edits to get from key; "" if all differ by more than a third of it.
func nearest(key string) string {
	key = strings.ToLower(key[:min(len(key), 64)])
	best, least := "", len(key)/3+1
	for row := range rows() {
		for _, name := range append(row.names(), row.flags...) {
			if d := distance(key, strings.ToLower(name)); d < least {
				best, least = row.name, d
			}
		}
	}
	return best
}

// distance is the Levenshtein distance of two texts, in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
