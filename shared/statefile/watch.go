package statefile

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// lookInterval is how often directories without a watch are looked at.
const lookInterval = time.Second

// Watch calls changed whenever something in one of the directories may have
// changed, and once more after each watch was set, until ctx ends. Only a hint
// is passed on: events are lost and joined, so the caller reads everything
// anew. Directories that are not there yet are looked for each second; one
// that was replaced is watched again. Where the kernel gives no watch (its
// number per user is limited, inotify(7)) changed is called each second.
//
// changed must not block.
func Watch(ctx context.Context, log *slog.Logger, changed func(), dirs ...string) error {
	w := &watcher{log: log, changed: changed, state: map[string]dirState{}}
	for _, dir := range dirs {
		w.state[filepath.Clean(dir)] = missing
	}
	var err error
	if w.notify, err = fsnotify.NewWatcher(); err != nil {
		log.Warn("cannot watch directories, looking each second", "err", err)
		return w.poll(ctx)
	}
	defer func() { _ = w.notify.Close() }() // nothing is lost by it
	return w.run(ctx)
}

type dirState int

const (
	missing dirState = iota
	watched
	refused // there, but the kernel gives no watch
)

type watcher struct {
	log     *slog.Logger
	changed func()
	notify  *fsnotify.Watcher
	state   map[string]dirState
}

func (w *watcher) poll(ctx context.Context) error {
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	for {
		w.changed()
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (w *watcher) run(ctx context.Context) error {
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	w.look()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			w.look()
		case e, ok := <-w.notify.Events:
			if !ok {
				return errors.New("directory watch ended")
			}
			w.event(e)
		case err, ok := <-w.notify.Errors:
			if !ok {
				return errors.New("directory watch ended")
			}
			// An overflow has lost events, which a full pass makes good.
			w.log.Debug("directory watch", "err", err)
			w.changed()
		}
	}
}

// look sets the watches that are not there yet.
func (w *watcher) look() {
	for dir, state := range w.state {
		if state == watched {
			continue
		}
		err := w.notify.Add(dir)
		switch {
		case err == nil:
			w.state[dir] = watched
		case errors.Is(err, fs.ErrNotExist):
			w.state[dir] = missing
			continue
		case state != refused:
			w.log.Warn("cannot watch directory, looking each second", "dir", dir, "err", err)
			w.state[dir] = refused
		}
		w.changed()
	}
}

func (w *watcher) event(e fsnotify.Event) {
	_, isDir := w.state[e.Name]
	switch {
	case isDir && e.Has(fsnotify.Remove|fsnotify.Rename):
		_ = w.notify.Remove(e.Name) // after Remove the kernel has done so itself
		w.state[e.Name] = missing
		w.look()
		w.changed()
	case !strings.HasPrefix(filepath.Base(e.Name), "."):
		w.changed() // temporary files concern nobody
	}
}
