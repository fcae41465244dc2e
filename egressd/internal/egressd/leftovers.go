package egressd

import (
	"log/slog"

	"github.com/vipod/vipod/egressd/internal/leftover"
)

// leftovers says what kube-vip left, after removing it if that is asked for.
// Neither harms what egressd does itself, so that an error is told and no more.
func (d *Daemon) leftovers(log *slog.Logger) []string {
	items, err := leftover.Find()
	if err != nil {
		log.Error("looking for what kube-vip left", "err", err)
		return nil
	}
	if len(items) > 0 && d.adopt {
		err := leftover.Remove(items)
		if err == nil {
			for _, i := range items {
				log.Info("kube-vip's removed", "op", i.String())
			}
			return nil
		}
		log.Error("removing what kube-vip left", "err", err)
	}
	var list []string
	for _, i := range items {
		list = append(list, i.String())
	}
	if len(list) > 0 {
		log.Warn("kube-vip runs or has left something, which --adopt-kube-vip removes", "first", list[0], "more", len(list)-1)
	}
	return list
}
