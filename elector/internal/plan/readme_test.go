package plan

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// spoken are the annotations and the reasons of refusals in the source.
var spoken = regexp.MustCompile(`= "((?:kube-vip|vipod)\.io/[A-Za-z0-9_-]+)"|Reason\w+ += "(\w+)"`)

// What a user can write or read is in the README, or in that of the daemon
// which it is about.
func TestReadmesNameEveryAnnotationAndReason(t *testing.T) {
	var text strings.Builder
	for _, dir := range []string{"", "../bgpd", "../egressd"} {
		text.WriteString(readFile(t, filepath.Join("../..", dir, "README.md")))
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, match := range spoken.FindAllStringSubmatch(readFile(t, file), -1) {
			found++
			if word := match[1] + match[2]; !strings.Contains(text.String(), "`"+word+"`") {
				t.Errorf("%s: %s is in no README", file, word)
			}
		}
	}
	if found < 20 {
		t.Errorf("found %d annotations and reasons in the source, there are more", found)
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
