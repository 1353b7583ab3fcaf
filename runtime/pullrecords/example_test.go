// SPDX-License-Identifier: Apache-2.0

package pullrecords_test

import (
	"fmt"
	"os"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/pullrecords"
)

// An image that was pulled with a Secret is for pods with the same Secret, or with the same credentials.
func Example() {
	dir, err := os.MkdirTemp("", "pulls")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	records, err := pullrecords.Open(pullrecords.Options{Dir: dir})
	if err != nil {
		fmt.Println(err)
		return
	}
	shop := runtime.ImageAuth{Username: "shop", Password: "…", Secret: "shop/pull/1"}
	end, err := records.Begin("registry.example/shop:1", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := end("sha256:1", &shop, nil); err != nil { // the runtime has pulled the image
		fmt.Println(err)
		return
	}
	for _, credentials := range [][]runtime.ImageAuth{{shop}, nil} {
		fmt.Println(records.MayUse("registry.example/shop:1", "sha256:1", func() []runtime.ImageAuth { return credentials }))
	}
	// Output:
	// true <nil>
	// false <nil>
}
