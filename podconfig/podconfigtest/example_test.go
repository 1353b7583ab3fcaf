// SPDX-License-Identifier: Apache-2.0

package podconfigtest_test

import (
	"context"
	"fmt"

	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podconfig/podconfigtest"
)

// forgetful is a Merger that reports only new pods.
type forgetful struct{ store *podconfig.Store }

func (m forgetful) Merge(ctx context.Context, source string, c podconfig.Change) ([]podconfig.Update, error) {
	updates, err := m.store.Merge(ctx, source, c)
	if len(updates) > 1 {
		updates = updates[len(updates)-1:]
	}
	return updates, err
}

// The table is data, and Check returns the first fault of a Merger. In a test, call Run.
func Example() {
	for _, c := range podconfigtest.Cases() {
		if c.Name != "same name, new UID: REMOVE before ADD" {
			continue
		}
		store, err := podconfig.NewStore(podconfig.StoreOptions{})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(c.Check(context.Background(), store))
		store, err = podconfig.NewStore(podconfig.StoreOptions{})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(c.Check(context.Background(), forgetful{store}))
	}
	// Output:
	// <nil>
	// step 2, Snapshot of source "file": the updates must be "REMOVE[a/1] ADD[a/9]", they are "ADD[a/9]"
}
