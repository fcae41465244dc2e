// Package result keeps what the benchmark measured: rows of single values, in
// a file that survives an aborted run; series of them with their percentiles;
// and the goals that they are held to. It measures nothing itself.
package result
