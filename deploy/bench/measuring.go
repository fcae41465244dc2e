package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/vipod/vipod/deploy/bench/result"
)

// scenario is one measurement, which is made of every system that it applies
// to.
type scenario struct {
	name string
	// what is measured and how, in one paragraph.
	what string
	lab  setup
	// creates: the system must follow Services as they are made.
	creates bool
	// alone: it applies to vipod only.
	alone bool
	// patience is how long a trial may take, trialTime if zero.
	patience time.Duration
	run      func(context.Context, *measuring) error
}

// measuring is one scenario of one system.
type measuring struct {
	*bench
	scenario
	sys system
}

// value is one number of a trial.
type value struct {
	metric, unit string
	v            float64
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

const (
	// trialTime is how long a trial may take.
	trialTime = 90 * time.Second
	// mendTime is how long making everything whole may take.
	mendTime = 60 * time.Second
)

func (m *measuring) run(ctx context.Context) error {
	m.say("%s of %s", m.name, m.sys.name())
	m.book.Forget(m.sys.name(), m.name)
	if err := m.enter(ctx); err != nil {
		return m.failed("", 0, err)
	}
	return m.scenario.run(ctx, m)
}

// enter makes the lab that the scenario needs.
func (m *measuring) enter(ctx context.Context) error { return m.bench.enter(ctx, m.sys, m.lab) }

// each makes n trials of a case. One that fails is recorded as such, and the
// next one begins in a lab that is whole again, or in a new one.
func (m *measuring) each(ctx context.Context, kase string, n int, try func(context.Context, int) ([]value, error)) error {
	for trial := 1; trial <= n; trial++ {
		trialCtx, cancel := context.WithTimeout(ctx, cmp.Or(m.patience, trialTime))
		values, err := try(trialCtx, trial)
		cancel()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		broken := err != nil && m.creates // thousands of Services may be left
		if err := m.outcome(kase, trial, values, err); err != nil {
			return err
		}
		if broken {
			err = errors.Join(m.leave(), m.enter(ctx))
		} else {
			err = m.mend(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// mend makes the lab whole, or anew where that fails.
func (m *measuring) mend(ctx context.Context) error {
	mendCtx, cancel := context.WithTimeout(ctx, mendTime)
	defer cancel()
	err := m.world.mend(mendCtx)
	if err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	m.say("  a new lab, since the old one did not recover: %v", err)
	return errors.Join(m.leave(), m.enter(ctx))
}

// outcome keeps what came of a trial: values, or why there are none.
func (m *measuring) outcome(kase string, trial int, values []value, err error) error {
	if err != nil {
		return m.failed(kase, trial, err)
	}
	return m.record(kase, trial, values...)
}

// record keeps the values of a trial.
func (m *measuring) record(kase string, trial int, values ...value) error {
	rows := make([]result.Row, len(values))
	line := fmt.Sprintf("  %s %s %d:", m.name, kase, trial)
	for i, v := range values {
		rows[i] = m.row(kase, trial)
		rows[i].Metric, rows[i].Unit, rows[i].Value = v.metric, v.unit, v.v
		line += fmt.Sprintf(" %s %s %s;", v.metric, result.Number(v.v), v.unit)
	}
	m.say("%s", line)
	return m.book.Add(rows...)
}

func (m *measuring) failed(kase string, trial int, err error) error {
	m.say("  %s %s %d FAILED: %v", m.name, kase, trial, err)
	row := m.row(kase, trial)
	row.Err = err.Error()
	return m.book.Add(row)
}

func (m *measuring) row(kase string, trial int) result.Row {
	return result.Row{
		Key:   result.Key{System: m.sys.name(), Measurement: m.name, Case: kase},
		Trial: trial, Commit: m.commit, At: time.Now(),
	}
}

// scaled returns a number of Services, times -scale.
func (m *measuring) scaled(n int) int {
	if n <= 10 {
		return n
	}
	return max(1, int(float64(n)*m.scale))
}

// pause sleeps unless the context ends.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
