package pulse_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vipod/vipod/shared/pulse"
)

func TestLoopThatIsStuckIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		good, bad := pulse.New("good loop"), pulse.New("bad loop")
		ctx, stop := context.WithCancel(t.Context())
		go func() {
			for {
				select {
				case <-good.C():
				case <-ctx.Done():
					return
				}
			}
		}()
		if err := pulse.Check(ctx, good); err != nil {
			t.Error(err)
		}
		start := time.Now()
		err := pulse.Check(ctx, bad, good)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "bad loop is stuck") {
			t.Errorf("error %v", err)
		}
		if waited := time.Since(start); waited != pulse.Wait {
			t.Errorf("waited %s", waited)
		}
		stop()
	})
}

func TestBusyLoopAnswersInBetween(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pulse.New("busy loop")
		p.Answer() // nobody asks
		done := make(chan error)
		go func() { done <- p.Check(t.Context()) }()
		synctest.Wait()
		p.Answer()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
