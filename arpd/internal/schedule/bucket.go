package schedule

import "time"

const (
	// rate is the most frames per second over all links, so that taking over
	// 1000 addresses neither floods a switch nor overruns a send buffer and
	// still has two frames of each out within 250 ms.
	rate  = 8000
	burst = 64
	// refill is how many frames a sender that ran dry waits for: waking up
	// for each single one would cost more than sending it.
	refill = 8
)

// bucket is a token bucket, one token a frame.
type bucket struct {
	tokens float64
	filled time.Duration
}

func (b *bucket) fill(now time.Duration) {
	if now > b.filled {
		b.tokens = min(burst, b.tokens+(now-b.filled).Seconds()*rate)
		b.filled = now
	}
}

func (b *bucket) take() bool {
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

// wait returns how long it takes until sending goes on.
func (b *bucket) wait() time.Duration {
	if b.tokens >= 1 {
		return 0
	}
	return time.Duration((refill - b.tokens) / rate * float64(time.Second))
}
