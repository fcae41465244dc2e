package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Process is a process of a lab, as recorded when it was started. Pid and
// start time together name it: a reused pid has another start time.
type Process struct {
	Role string   `json:"role"`
	Name string   `json:"name"`
	PID  int      `json:"pid"`
	Args []string `json:"args"`
	Log  string   `json:"log"`
	// Start is field 22 of /proc/<pid>/stat: clock ticks since boot.
	Start uint64 `json:"start"`
}

// State returns "running", "paused" or "gone".
func (p Process) State() string {
	state, start, err := readStat(p.PID)
	switch {
	case err != nil, start != p.Start, state == 'Z', state == 'X':
		return "gone"
	case state == 'T', state == 't':
		return "paused"
	}
	return "running"
}

// Alive says whether the process exists, be it paused.
func (p Process) Alive() bool { return p.State() != "gone" }

// readStat returns a process's state letter and start time.
func readStat(pid int) (state byte, start uint64, err error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, err
	}
	// The second field is the command in parentheses, which may hold both
	// spaces and parentheses.
	text := string(data)
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 20 {
		return 0, 0, fmt.Errorf("/proc/%d/stat has %d fields after the command", pid, len(fields))
	}
	start, err = strconv.ParseUint(fields[19], 10, 64)
	return fields[0][0], start, err
}

// open returns a handle on exactly this process, which stays valid however
// pids are reused, or -1 when the process is gone.
func (p Process) open() (int, error) {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return -1, nil
	}
	if err != nil {
		return -1, fmt.Errorf("opening process %d: %w", p.PID, err)
	}
	if !p.Alive() {
		unix.Close(fd)
		return -1, nil
	}
	return fd, nil
}

// signal sends a signal; to a process that is gone it does nothing.
func (p Process) signal(sig syscall.Signal) error {
	fd, err := p.open()
	if err != nil || fd < 0 {
		return err
	}
	defer unix.Close(fd)
	if err := unix.PidfdSendSignal(fd, sig, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("sending %v to %s of %s: %w", sig, p.Name, p.Role, err)
	}
	return nil
}

// wait returns when the process is gone.
func (p Process) wait(ctx context.Context) error {
	fd, err := p.open()
	if err != nil || fd < 0 {
		return err
	}
	defer unix.Close(fd)
	for {
		// Readable means ended. A short timeout, to see the context end.
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 50)
		if n > 0 {
			return nil
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("waiting for process %d: %w", p.PID, err)
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("waiting for %s of %s (process %d) to end: %w", p.Name, p.Role, p.PID, err)
		}
	}
}

// program is a process to be started.
type program struct {
	role, name string
	// argv is the program and its arguments; the program is an absolute path.
	argv []string
	// wrap comes before argv and ends in an exec of it, as setpriv does.
	wrap []string
	env  []string
}

// start starts a program in its role's namespace, in a session of its own,
// and records it. It returns once the program itself has been executed.
func (l *Lab) start(ctx context.Context, p program) (Process, error) {
	if old, ok := l.process(p.role, p.name); ok && old.Alive() {
		return old, fmt.Errorf("starting %s of %s: runs already as process %d", p.name, p.role, old.PID)
	}
	logPath := l.path("logs", p.role+"-"+p.name+".log")
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return Process{}, fmt.Errorf("opening the log of %s: %w", p.name, err)
	}
	defer log.Close()

	argv := append([]string{"netns", "exec", nsName(l.name, p.role)}, p.wrap...)
	cmd := exec.Command("ip", append(argv, p.argv...)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Dir = "/"
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, p.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return Process{}, fmt.Errorf("starting %s of %s: %w", p.name, p.role, err)
	}
	proc := Process{Role: p.role, Name: p.name, PID: cmd.Process.Pid, Args: p.argv, Log: logPath}
	_, proc.Start, err = readStat(proc.PID)
	if err == nil {
		err = l.record(proc)
	}
	l.children.Go(func() { _ = cmd.Wait() }) // reaps it; why it ended is in its log
	if err == nil {
		err = proc.awaitExec(ctx, p.argv[0])
	}
	if err != nil {
		_ = proc.signal(unix.SIGKILL)
		return Process{}, fmt.Errorf("starting %s of %s: %w", p.name, p.role, err)
	}
	return proc, nil
}

// awaitExec returns when the process runs the program and no longer ip or
// setpriv, which prepare for it.
func (p Process) awaitExec(ctx context.Context, program string) error {
	for {
		exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", p.PID))
		if base := filepath.Base(exe); err == nil && base != "ip" && base != "setpriv" {
			return nil
		}
		if !p.Alive() {
			return fmt.Errorf("%s ended at once: %s", program, p.logTail())
		}
		if err := pause(ctx, time.Millisecond); err != nil {
			return err
		}
	}
}

// logTail returns the last lines of the process's log, for error messages.
func (p Process) logTail() string {
	data, err := os.ReadFile(p.Log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return strings.Join(lines[max(0, len(lines)-5):], "\n")
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

// record writes the process's file.
func (l *Lab) record(p Process) error {
	return writeJSON(l.path("processes", p.Role+"."+p.Name+".json"), p)
}

// process returns the recorded process of a role.
func (l *Lab) process(role, name string) (Process, bool) {
	var p Process
	err := readJSON(l.path("processes", role+"."+name+".json"), &p)
	return p, err == nil
}

// Processes returns every process that was started and not started again,
// those that have ended included, sorted by role and name.
func (l *Lab) Processes() ([]Process, error) {
	paths, err := filepath.Glob(l.path("processes", "*.json"))
	if err != nil {
		return nil, fmt.Errorf("listing processes of lab %s: %w", l.name, err)
	}
	var procs []Process
	for _, path := range paths {
		var p Process
		if err := readJSON(path, &p); err != nil {
			return nil, err
		}
		procs = append(procs, p)
	}
	return procs, nil
}

// stopProcess sends the signal to a role's process and waits for its end.
// A process that does not exist is stopped already.
func (l *Lab) stopProcess(ctx context.Context, role, name string, sig syscall.Signal) error {
	p, ok := l.process(role, name)
	if !ok {
		return nil
	}
	return errors.Join(p.signal(sig), p.wait(ctx))
}

// writeJSON replaces a file as a whole.
func writeJSON(path string, value any) error {
	data, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding %s: %w", path, err)
	}
	temp := path + ".new"
	if err := os.WriteFile(temp, append(data, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(temp, path)
}

func readJSON(path string, value any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, value); err != nil {
		return fmt.Errorf("decoding %s: %w", path, err)
	}
	return nil
}
