// SPDX-License-Identifier: Apache-2.0

//go:build !noimagearchives

package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"
	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/podconfig/file/fsnotify"
	"github.com/keelson-dev/keelson/runtime/imageimport"
)

// archiveFlags are the flags for images without a network.
type archiveFlags struct{ dir string }

func (a *archiveFlags) register(set *pflag.FlagSet) {
	set.StringVar(&a.dir, "image-archives", "", "with containerd: folder of image archives (.tar, .tar.gz) that are imported and pinned at the start and when they change; needs the program ctr (docs/images.md)")
}

func (a *archiveFlags) complete(endpoint string) (err error) {
	switch {
	case a.dir == "":
		return nil
	case endpoint == processEndpoint:
		return errors.New("--image-archives is for containerd: containers of the process backend are programs of this machine")
	}
	if _, err := exec.LookPath("ctr"); err != nil {
		return fmt.Errorf("--image-archives: %w: install ctr, which is part of containerd", err)
	}
	a.dir, err = filepath.Abs(a.dir)
	return err
}

// newArchives imports the archives of --image-archives, before the pods that need the images are started.
// It returns the feature that follows the folder, nil without the flag.
func newArchives(ctx context.Context, f flags, log *zap.Logger) (func(*feature.Host) []feature.Feature, error) {
	if f.archives.dir == "" {
		return nil, nil
	}
	folder, err := imageimport.New(imageimport.Options{
		Dir:      f.archives.dir,
		Importer: imageimport.Ctr{Socket: strings.TrimPrefix(f.endpoint, "unix://")},
		Hints:    fsnotify.Hinter{}.Hints,
		Imported: func(a *imageimport.Archive) {
			log.Info("images imported", zap.String("file", a.Path), zap.Strings("images", a.Names))
		},
		Problem: func(path string, err error) {
			if err == nil {
				log.Info("image archive is used again", zap.String("file", path))
				return
			}
			log.Warn("image archive not used", zap.String("file", path), zap.Error(err))
		},
	})
	if err != nil {
		return nil, fmt.Errorf("--image-archives: %w", err)
	}
	folder.Scan(ctx)
	return func(*feature.Host) []feature.Feature {
		return []feature.Feature{{Name: "imagearchives", Images: folder.Pinned, Run: folder.Run}}
	}, nil
}
