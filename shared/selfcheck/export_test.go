package selfcheck

// What the tests look at from outside, since they use a package that uses this
// one.
var (
	CompareCapabilities = compareCapabilities
	CheckDir            = checkDir
)
