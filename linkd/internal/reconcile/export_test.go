package reconcile

// Pass makes one pass on the caller's thread, so that a test chooses the
// network namespace.
func (r *Reconciler) Pass() { r.pass() }
