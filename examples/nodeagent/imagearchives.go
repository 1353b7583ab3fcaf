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
	"github.com/keelson-dev/keelson/internal/failurelog"
	"github.com/keelson-dev/keelson/podconfig/file/fsnotify"
	"github.com/keelson-dev/keelson/runtime/imagearchive"
	"github.com/keelson-dev/keelson/runtime/imageimport"
)

// archiveFlags are the flags for images without a network.
type archiveFlags struct{ dir string }

func (a *archiveFlags) register(set *pflag.FlagSet) {
	set.StringVar(&a.dir, "image-archives", "", "folder of image archives (.tar, .tar.gz), for nodes without a registry: with --images, containers run images of archives; with containerd, the program ctr imports and pins the images at the start and after changes (docs/images.md)")
}

func (a *archiveFlags) complete(endpoint string, images bool) (err error) {
	switch _, noCtr := exec.LookPath("ctr"); {
	case a.dir == "":
		return nil
	case endpoint == processEndpoint && !images:
		return errors.New("--image-archives is for containerd and for --images: other containers of the process backend are programs of this machine")
	case endpoint != processEndpoint && noCtr != nil:
		return fmt.Errorf("--image-archives: %w: install ctr, which is part of containerd", noCtr)
	}
	a.dir, err = filepath.Abs(a.dir)
	return err
}

// newArchives imports the archives of --image-archives into containerd, before the pods that need the
// images are started. It returns the feature that follows the folder, nil without the flag. The store
// of --images reads the folder itself.
func newArchives(ctx context.Context, f flags, log *zap.Logger) (features, error) {
	if f.archives.dir == "" || f.endpoint == processEndpoint {
		return nil, nil
	}
	const notUsed = "image archive not used"
	folder, err := imageimport.New(imageimport.Options{
		Dir:      f.archives.dir,
		Importer: imageimport.Ctr{Socket: strings.TrimPrefix(f.endpoint, "unix://")},
		Hints:    fsnotify.Hinter{}.Hints,
		Imported: func(a *imagearchive.Archive) {
			log.Info("images imported", zap.String("file", a.Path()), zap.Strings("images", a.Names()))
		},
		Problem: func(path string, err error) {
			if err == nil {
				log.Info("image archive is used again", zap.String("file", path), failurelog.Ends(notUsed))
				return
			}
			log.Warn(notUsed, zap.String("file", path), zap.Error(err))
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
