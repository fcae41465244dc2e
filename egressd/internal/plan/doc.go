// Package plan decides how the kernel's tables come to hold what they shall
// hold. It is pure: no clock, no I/O, the same operations for the same input.
//
// Each feature has one nftables table of a fixed shape, of which only the
// elements of its sets and maps change: egress, firewall, balance. So a plan
// is the difference between elements, and an operation prints as the command
// that does it. All operations of a plan are one transaction.
//
//   - A table that is not as it was made (a rule is missing, a set is gone, an
//     older version made it) counts as absent and is made anew as a whole.
//   - On a complete picture, what nothing wants is removed. Without one only
//     what belongs to a Service whose document could be read is, and no table.
//   - Removals come before additions, so that networks that overlap and values
//     that change never meet.
package plan
