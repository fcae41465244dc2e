// Package version says which build this is.
package version

import "runtime"

// Version is set by the linker: -X .../shared/version.Version=v1.2.3.
var Version = "dev"

// Commit is set by the linker like Version.
var Commit = "unknown"

// String returns version, commit and toolchain in one line.
func String() string { return Version + " (" + Commit + ", " + runtime.Version() + ")" }
