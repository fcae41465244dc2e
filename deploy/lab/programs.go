package lab

import (
	"context"
	"fmt"
	"syscall"
)

// StartProgram starts a program that is none of the lab's own, such as
// another implementation to compare with, in a role's namespace as root. argv
// begins with an absolute path. It ends with the lab.
func (l *Lab) StartProgram(ctx context.Context, role, name string, argv, env []string) (Process, error) {
	return l.start(ctx, program{role: role, name: name, argv: argv, env: env})
}

// SignalProgram sends a signal to a role's program and does not wait.
func (l *Lab) SignalProgram(role, name string, sig syscall.Signal) error {
	return l.signalProcess(role, name, sig)
}

// AwaitEnd waits until the programs of a role have ended. One that was never
// started has.
func (l *Lab) AwaitEnd(ctx context.Context, role string, names ...string) error {
	for _, name := range names {
		p, ok := l.process(role, name)
		if !ok {
			continue
		}
		if err := p.wait(ctx); err != nil {
			return fmt.Errorf("awaiting the end of %s: %w", name, err)
		}
	}
	return nil
}

// Program returns a role's program; false if it was never started.
func (l *Lab) Program(role, name string) (Process, bool) { return l.process(role, name) }
