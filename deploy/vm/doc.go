// Package vm runs the tests of a Go package on another kernel: Debian's, in a
// small virtual machine, for what the kernel at hand lacks and to see that
// vipod works on the oldest kernel it is meant for.
//
// The machine is qemu with software emulation. It has one CPU, no disk, no
// network, and as its whole file system an initramfs of busybox, the kernel
// modules asked for and the test binary. It starts in a few seconds. The
// kernel's package is downloaded with apt and unpacked into a cache, never
// installed. Only the cache is left behind.
//
// The binary is built without the race detector, which needs more than a
// static binary.
package vm
