// Package intent makes the documents that the other daemons act on, from what
// the plan wants and what this node owns, and keeps those of this process in
// the state directory.
package intent
