// Package config reads elector's settings, which are those of the whole pod:
// from flags, from the environment by kube-vip's names, and from a YAML file
// whose keys are the names of the environment.
//
// A flag wins over the environment, the environment over the file, the file
// over the default. All errors are returned at once, each naming the setting,
// where it was given and what is allowed. A setting of a mode that this build
// does not have is an error when it switches the mode on; what is accepted
// without an effect is listed in Config.Notices, and so is what looks like a
// setting in the environment and is none.
//
// One table (settings.go) is the source of the flags, their help, the
// environment's names, the file's keys, the errors and the tables in
// SETTINGS.md.
package config
