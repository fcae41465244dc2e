package statefile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Watch calls changed whenever something in one of the directories may have
// changed, and once more after each watch was set, until ctx ends. Only a hint
// is passed on: events are lost and joined, so the caller reads everything
// anew. Directories that are not there yet are looked for each second; one
// that was replaced is watched again.
//
// changed must not block.
func Watch(ctx context.Context, log *slog.Logger, changed func(), dirs ...string) error {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("starting directory watch: %w", err)
	}
	defer func() { _ = w.Close() }() // nothing is lost by it
	missing := time.NewTicker(time.Second)
	defer missing.Stop()
	watched := map[string]bool{}
	add := func() {
		for _, dir := range dirs {
			if watched[dir] {
				continue
			}
			if err := w.Add(dir); err == nil {
				watched[dir] = true
				changed()
			} else if !errors.Is(err, fs.ErrNotExist) {
				log.Warn("cannot watch directory", "dir", dir, "err", err)
			}
		}
	}
	add()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-missing.C:
			add()
		case e, ok := <-w.Events:
			if !ok {
				return errors.New("directory watch ended")
			}
			// The kernel ends a watch with its directory.
			if watched[e.Name] && e.Has(fsnotify.Remove|fsnotify.Rename) {
				_ = w.Remove(e.Name) // already gone after Remove
				delete(watched, e.Name)
				add()
				changed()
			} else if !strings.HasPrefix(filepath.Base(e.Name), ".") {
				changed() // temporary files concern nobody
			}
		case err, ok := <-w.Errors:
			if !ok {
				return errors.New("directory watch ended")
			}
			// An overflow has lost events, which a full pass makes good.
			log.Debug("directory watch", "err", err)
			changed()
		}
	}
}
