// SPDX-License-Identifier: Apache-2.0

package url_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/keelson-dev/keelson/podconfig/manifest"
	"github.com/keelson-dev/keelson/podconfig/url"
)

func Example() {
	manifests := "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: main, image: localhost/web:1}]}\n"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, manifests) }))
	defer server.Close()

	src, err := url.New(url.Config{
		URL:     server.URL + "/pods.yaml",
		Decoder: &manifest.Decoder{NodeName: "edge-17", Strict: true},
		Client:  server.Client(),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	look := func() {
		r, err := src.Poll(context.Background()) // Run calls Poll every period
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, p := range r.Pods {
			fmt.Println("pod:", p.Name, p.Spec.Containers[0].Image, "problem:", r.Problem != nil)
		}
	}
	look()
	manifests = "oops"
	look()
	// Output:
	// pod: web-edge-17 localhost/web:1 problem: false
	// pod: web-edge-17 localhost/web:1 problem: true
}
