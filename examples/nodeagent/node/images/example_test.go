// SPDX-License-Identifier: Apache-2.0

package images_test

import (
	"context"
	"fmt"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/images"
	"github.com/keelson-dev/keelson/imagegc"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// Example enables garbage collection without the required option Images.
func Example() {
	rt, err := fake.New(fake.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	bus := podconfig.SourceFunc("bus", func(ctx context.Context, _ podconfig.Sink) error { <-ctx.Done(); return nil })
	_, err = node.New(node.Options{
		NodeName: "gw-17", Root: "/var/lib/gw", Runtime: rt, Sources: []podconfig.Source{bus},
		ImageGC: &images.GC{Policy: imagegc.Policy{HighPercent: 70, LowPercent: 60}},
	})
	fmt.Println(err)
	// Output: imagegc: Options.Images is required
}
