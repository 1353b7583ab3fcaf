// SPDX-License-Identifier: Apache-2.0

package fake_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// A container that crashes is started again; the second start fails once.
func Example() {
	ctx := context.Background()
	rt, err := fake.New(fake.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	rt.Script(fake.Target{Container: "web"}, fake.Script{Message: "out of coffee"})
	if _, err := rt.Inject(fake.Fault{On: fake.Target{Op: fake.OpStartContainer}, Nth: 2, Err: errors.New("disk full")}); err != nil {
		fmt.Println(err)
		return
	}

	// The calls of a node agent.
	sandbox, _ := rt.RunSandbox(ctx, runtime.SandboxSpec{UID: "1234", Namespace: "default", Name: "shop"})
	for restart := range int32(3) {
		id, _ := rt.CreateContainer(ctx, sandbox, runtime.ContainerSpec{Name: "web", RestartCount: restart})
		if err := rt.StartContainer(ctx, id); err == nil && restart == 0 {
			_ = rt.Kill("1234", "web", 1) // the crash
		}
	}
	st, _ := rt.PodStatus(ctx, "1234")
	_ = rt.StopContainer(ctx, st.Latest("web").ID, 30*time.Second)

	for _, e := range rt.Journal() {
		fmt.Println(e.What())
	}
	fmt.Println("overlap:", rt.NoOverlap())
	// In a test, print rt.Journal() itself: it begins each line with the time,
	// which is virtual and the same in every run under testing/synctest.

	// Output:
	// RunSandbox default/shop sandbox-00000002 attempt 0: ok
	// CreateContainer default/shop/web container-00000003 restart 0: ok
	// StartContainer default/shop/web container-00000003: ok
	// exited default/shop/web container-00000003 code 1 (Error)
	// CreateContainer default/shop/web container-00000004 restart 1: ok
	// StartContainer default/shop/web container-00000004: disk full
	// CreateContainer default/shop/web container-00000005 restart 2: ok
	// StartContainer default/shop/web container-00000005: ok
	// PodStatus default/shop: ok
	// StopContainer default/shop/web container-00000005 grace 30s: ok
	// terminating default/shop/web container-00000005
	// exited default/shop/web container-00000005 code 0 (Completed)
	// overlap: <nil>
}
