// SPDX-License-Identifier: Apache-2.0

package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/process/internal/record"
	"github.com/keelson-dev/keelson/runtime/process/internal/walls"
)

// Images supplies the root file systems of containers.
type Images interface {
	// RootFS returns the root file system of an image, by its ID or by the name in the pod.
	// CreateContainer calls RootFS after the pull of the image. RootFS does not pull, and may be
	// called concurrently. An absent image is an error that wraps runtime.ErrNotFound.
	RootFS(ctx context.Context, image string) (RootFS, error)
}

// RootFS is an unpacked image with the settings of its configuration.
type RootFS struct {
	// Dir is the absolute path of the files. Containers share Dir and never write it. Dir has to
	// exist as long as a container of the image. If the agent is not root, all files belong to
	// the agent's user.
	Dir        string
	Entrypoint []string
	Cmd        []string
	Env        []string // NAME=value
	User       string   // "", "uid" or "uid:gid", in numbers
	WorkingDir string
	StopSignal string // a name or a number; may be empty
	// Owners are the owners of files and folders that do not belong to root in the image, unless the agent is root.
	// A container sees them if its root may change to other users. Each such file is copied for each container.
	Owners []Owner
}

// Owner is the owner of a file of an image, by the path below RootFS.Dir.
type Owner = record.Owner

// errNoCommand is the error of an image without a command, for a container without a command.
var errNoCommand = errors.New("neither the container nor its image has a command")

// command returns the arguments of a container: its command replaces the entrypoint and the
// command of the image, its args replace the command of the image.
func (i *RootFS) command(command, args []string) []string {
	switch {
	case len(command) > 0:
		return slices.Concat(command, args)
	case len(args) > 0:
		return slices.Concat(i.Entrypoint, args)
	}
	return slices.Concat(i.Entrypoint, i.Cmd)
}

// override returns the spec with the image's settings that the spec does not override.
func (i *RootFS) override(spec runtime.ContainerSpec) runtime.ContainerSpec {
	spec.Command, spec.Args = i.command(spec.Command, spec.Args), nil
	spec.WorkingDir = cmp.Or(spec.WorkingDir, i.WorkingDir)
	own := map[string]string{"PATH": defaultPath}
	for _, e := range i.Env {
		if name, value, ok := strings.Cut(e, "="); ok {
			own[name] = value
		}
	}
	for _, e := range spec.Env {
		delete(own, e.Name)
	}
	var env []runtime.EnvVar
	for _, name := range slices.Sorted(maps.Keys(own)) {
		env = append(env, runtime.EnvVar{Name: name, Value: own[name]})
	}
	spec.Env = append(env, spec.Env...)
	return spec
}

// user returns the user and group of the image.
func (i *RootFS) user() (uid, gid uint32, err error) {
	u, g, _ := strings.Cut(cmp.Or(i.User, "0"), ":")
	parse := func(s string) uint32 {
		n, parseErr := strconv.ParseUint(s, 10, 32)
		if parseErr != nil {
			err = fmt.Errorf("the image's user %q is not a number", i.User)
		}
		return uint32(n)
	}
	return parse(u), parse(cmp.Or(g, "0")), err
}

// The folders of an image's container in its working folder.
const (
	upperDir   = ".upper"   // what the container writes
	scratchDir = ".scratch" // the kernel's
	rootDir    = ".root"    // the place of the overlay
)

// overlay returns the root file system of a container of the image.
func (i *RootFS) overlay(work string) (*walls.Image, error) {
	uid, gid, err := i.user()
	return &walls.Image{
		Lower: i.Dir, Upper: filepath.Join(work, upperDir), Scratch: filepath.Join(work, scratchDir),
		Dir: filepath.Join(work, rootDir), UID: uid, GID: gid, Owners: i.Owners,
	}, err
}

// mountImages returns the mounts with each image replaced by the folder of its files.
func (r *Runtime) mountImages(ctx context.Context, mounts []runtime.Mount) ([]runtime.Mount, error) {
	mounts = slices.Clone(mounts)
	for i := range mounts {
		m := &mounts[i]
		switch {
		case m.Image == "":
			continue
		case r.images == nil:
			return nil, &runtime.UnsupportedError{Runtime: name, Fields: []string{fmt.Sprintf("ContainerSpec.Mounts[%d].Image (%s)", i, whyNoImages)}}
		}
		image, err := r.images.RootFS(ctx, m.Image)
		if err == nil {
			m.HostPath, err = inImage(image.Dir, m.ImageSubPath)
		}
		if err != nil {
			return nil, fmt.Errorf("volume %s: image %s: %w", m.Name, m.Image, err)
		}
		m.ReadOnly = true
	}
	return mounts, nil
}

// inImage returns the path of a folder of an image. Links of the image lead to no file outside.
func inImage(dir, sub string) (string, error) {
	if sub == "" {
		return dir, nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	info, err := root.Stat(sub)
	switch {
	case err != nil:
		return "", err
	case !info.IsDir():
		return "", fmt.Errorf("subPath %s is no folder", sub)
	}
	return filepath.Join(dir, sub), nil
}

// ImagesInUse returns the images of all containers, by ID and by name, for a collector of images.
// "" stands for a container with a broken record.
func (r *Runtime) ImagesInUse(ctx context.Context) ([]string, error) {
	pods, err := r.List(ctx, runtime.ListOptions{})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, pod := range pods {
		for _, c := range pod.Containers {
			if c.ImageID != "" {
				names = append(names, c.ImageID)
			}
			names = append(names, c.Image)
		}
	}
	return names, nil
}
