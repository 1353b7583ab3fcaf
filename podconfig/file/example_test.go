// SPDX-License-Identifier: Apache-2.0

package file_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/keelson-dev/keelson/podconfig/file"
	"github.com/keelson-dev/keelson/podconfig/manifest"
)

func Example() {
	dir, err := os.MkdirTemp("", "example-*")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	put := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			fmt.Println(err)
		}
	}
	src, err := file.New(file.Config{
		Path:    dir,
		Decoder: &manifest.Decoder{NodeName: "edge-17", Strict: true},
		Problem: func(path string, err error) {
			if fileErr, ok := err.(*file.FileError); ok {
				fmt.Println("problem:", filepath.Base(path), fileErr.Err)
			} else {
				fmt.Println("recovered:", filepath.Base(path))
			}
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	look := func() {
		r, err := src.Scan(context.Background()) // Run calls Scan after a change
		if err != nil {
			fmt.Println(err)
		}
		for _, p := range r.Pods {
			fmt.Println("pod:", p.Name, p.Spec.Containers[0].Image)
		}
	}
	const web = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: main, image: localhost/web:1}]}\n"
	put("web.yaml", web)
	look()
	put("web.yaml", web[:60]) // half-written: the pod stays
	look()
	put("web.yaml", web)
	look()
	// Output:
	// pod: web-edge-17 localhost/web:1
	// problem: web.yaml 4:1: not valid YAML: a [ or { is not closed here, or a comma is missing
	// pod: web-edge-17 localhost/web:1
	// recovered: web.yaml
	// pod: web-edge-17 localhost/web:1
}
