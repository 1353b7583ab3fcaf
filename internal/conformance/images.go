// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/client-go/util/cert"

	"github.com/keelson-dev/keelson/internal/containerdtest"
)

// users has the users and groups of all images. Upstream's specs name some users.
var users = map[string]string{
	"/etc/passwd":        "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\nuser-defined-in-image:x:1000:1000::/home:/bin/sh\n",
	"/etc/group":         "root:x:0:\nnobody:x:65534:\nuser-defined-in-image:x:1000:\ngroup-defined-in-image:x:50000:user-defined-in-image\n",
	"/etc/nsswitch.conf": "hosts: files dns\n",
}

// searchPath is the PATH of all images.
const searchPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// registry is the prefix of images without a pull secret. Images of other registries must be missing
// on the node: specs check that pulls of these images fail.
const registry = "registry.k8s.io/"

// substitutes returns the images that can be made on this machine, by the last element of the names
// of upstream's images. dir is the folder with agnhost and nonewprivs.
func substitutes(dir string) (map[string]containerdtest.Image, error) {
	found, err := programs("bash", "curl", "dig", "getent", "hostname", "nc.openbsd")
	if err != nil {
		return nil, err
	}
	certificate, key, err := cert.GenerateSelfSignedCertKey("localhost", nil, nil)
	if err != nil {
		return nil, fmt.Errorf("certificate of agnhost's HTTPS server: %w", err)
	}
	agnhost := containerdtest.Image{
		Files:      map[string]string{"/localhost.crt": string(certificate), "/localhost.key": string(key)},
		Entrypoint: []string{"/agnhost"}, Cmd: []string{"pause"},
		Copies: map[string]containerdtest.Copy{"/agnhost": {From: filepath.Join(dir, "agnhost")}},
		Links:  map[string]string{"/agnhost-2": "agnhost"}, Dirs: []string{"/uploads"},
	}
	// The shell of busybox prefers its own nc to the nc of the PATH.
	found.copyTo(&agnhost, map[string]string{
		"/bin/bash": "bash", "/bin/sh": "bash", "/usr/bin/curl": "curl", "/usr/bin/dig": "dig", "/usr/bin/getent": "getent",
		"/bin/hostname": "hostname", "/bin/nc": "nc.openbsd"})
	glibc := containerdtest.Image{Cmd: []string{"sh"}, Copies: map[string]containerdtest.Copy{}}
	found.copyTo(&glibc, map[string]string{"/bin/hostname": "hostname", "/usr/bin/dig": "dig", "/usr/bin/getent": "getent"})
	// Debian's busybox shell drops variables whose names have a hyphen. bash passes them on, but has
	// other error messages: specs with such variables say "sh", specs about errors "/bin/sh".
	busybox := containerdtest.Image{
		Cmd:    []string{"sh"},
		Copies: map[string]containerdtest.Copy{},
		Links:  map[string]string{"/usr/local/bin/sh": "/bin/bash"},
	}
	found.copyTo(&busybox, map[string]string{"/bin/bash": "bash"})
	server := containerdtest.Image{Cmd: []string{"httpd", "-f", "-p", "80", "-h", "/www"}, Dirs: []string{"/www"}}
	all := map[string]containerdtest.Image{
		"pause":     {Entrypoint: []string{"sh", "-c", "trap 'exit 0' TERM; while :; do sleep 100000 & wait; done"}},
		"busybox":   busybox,
		"nonroot":   {Cmd: []string{"sh"}, User: "1234"},
		"ipc-utils": {Cmd: []string{"sh"}},
		"nginx":     server,
		"httpd":     server,
		"agnhost":   agnhost,

		"glibc-dns-testing": glibc,
		"nonewprivs": {
			Entrypoint: []string{"/usr/local/bin/nnp"},
			Copies:     map[string]containerdtest.Copy{"/usr/local/bin/nnp": {From: filepath.Join(dir, "nonewprivs"), Mode: 0o6755}},
		},
	}
	for name, image := range all {
		image.Env = []string{searchPath}
		files := maps.Clone(users)
		maps.Copy(files, image.Files)
		image.Files = files
		image.Dirs = append(image.Dirs, "/home", "/mnt", "/run", "/sbin", "/usr", "/usr/bin", "/usr/local", "/usr/local/bin", "/usr/sbin", "/var/tmp")
		all[name] = image
	}
	return all, nil
}

// makeImages returns the images for the names that the suite prints. Names without a substitute are
// left out: the specs with such an image fail or are in the list of skips.
func makeImages(ctx context.Context, dir string) ([]containerdtest.Image, error) {
	out, err := exec.CommandContext(ctx, filepath.Join(dir, "e2e.test"), "--list-images").Output()
	if err != nil {
		return nil, fmt.Errorf("e2e.test --list-images: %w", err)
	}
	all, err := substitutes(dir)
	if err != nil {
		return nil, err
	}
	names := strings.Fields(string(out))
	if plugin := os.Getenv(samplePluginVariable); plugin != "" {
		all["sample-device-plugin"] = containerdtest.Image{
			Entrypoint: []string{"/sample-device-plugin"},
			Copies:     map[string]containerdtest.Copy{"/sample-device-plugin": {From: plugin}},
		}
		names = append(names, samplePluginImage)
	}
	return nameImages(all, names), nil
}

// nameImages returns the images of the map all, each with those names whose last element is the key
// of the image.
func nameImages(all map[string]containerdtest.Image, names []string) []containerdtest.Image {
	named := map[string][]string{}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		if !strings.HasPrefix(name, registry) {
			continue
		}
		short, _, _ := strings.Cut(path.Base(name), ":")
		named[short] = append(named[short], name)
	}
	var images []containerdtest.Image
	for _, short := range slices.Sorted(maps.Keys(all)) {
		if len(named[short]) == 0 {
			continue
		}
		image := all[short]
		image.Name, image.Aliases = named[short][0], named[short][1:]
		images = append(images, image)
	}
	return images
}
