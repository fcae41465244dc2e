package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/fsnotify/fsnotify"

	"github.com/vipod/vipod/deploy/lab"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
)

// fileWatch notes the documents by which electors own VIPs.
type fileWatch struct {
	watcher *fsnotify.Watcher
	done    sync.WaitGroup
}

// watchFiles watches the VIP documents of every node.
func watchFiles(l *lab.Lab, note func(Event)) (*fileWatch, error) {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("watching documents: %w", err)
	}
	f := &fileWatch{watcher: watcher}
	nodes := map[string]string{}
	for _, node := range l.Nodes() {
		dir := ownership.VIPs(l.StateDir(node), ownership.Elector)
		nodes[dir] = node
		if err := watcher.Add(dir); err != nil {
			f.stop()
			return nil, fmt.Errorf("watching documents: %w", err)
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			f.stop()
			return nil, fmt.Errorf("watching documents: %w", err)
		}
		for _, e := range entries {
			noteEpoch(node, filepath.Join(dir, e.Name()), note)
		}
	}
	f.done.Go(func() {
		go func() {
			for range watcher.Errors { // an overflow: the next change tells
			}
		}()
		for e := range watcher.Events {
			noteEpoch(nodes[filepath.Dir(e.Name)], e.Name, note)
		}
	})
	return f, nil
}

// noteEpoch notes the document if it makes its node an owner.
func noteEpoch(node, path string, note func(Event)) {
	if node == "" || strings.HasPrefix(filepath.Base(path), ".") {
		return
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return // gone again
	}
	doc, err := schema.Decode[schema.VIP](data)
	if err != nil || doc.State != schema.StateActive {
		return
	}
	if epoch, err := strconv.ParseInt(doc.Epoch, 10, 64); err == nil {
		note(Event{Kind: Epoch, Node: node, N: epoch, Text: doc.Key})
	}
}

func (f *fileWatch) stop() {
	_ = f.watcher.Close()
	f.done.Wait()
}
