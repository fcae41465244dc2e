package reconcile

import (
	"cmp"

	"github.com/vipod/vipod/elector/internal/config"
	"github.com/vipod/vipod/shared/schema"
)

// mirror says which link's traffic is copied, and where to; nil for none.
func mirror(c *config.Config) *schema.Mirror {
	if c.Mirror == "" {
		return nil
	}
	return &schema.Mirror{From: cmp.Or(c.ServicesInterface, c.Interface), To: c.Mirror}
}
