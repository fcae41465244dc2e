package probe

import "time"

// Answered says whether an answer has come within the time until now.
func (p *Prober) Answered(within time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.result.Received > 0 && time.Since(p.last) < within
}
