// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"slices"

	"go.uber.org/zap"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podconfig/file"
	"github.com/keelson-dev/keelson/podconfig/file/fsnotify"
	"github.com/keelson-dev/keelson/podconfig/manifest"
	"github.com/keelson-dev/keelson/podconfig/url"
)

// newFolder reads the manifests. What is wrong with one is one line of the log,
// and so is that it is right again.
func newFolder(f flags, decoder *manifest.Decoder, log *zap.Logger) (podconfig.Source, error) {
	return file.New(file.Config{
		Path:    f.manifests,
		Decoder: decoder,
		Hinter:  fsnotify.Hinter{},
		Problem: func(path string, err error) {
			if err == nil {
				log.Info(manifestProblemOver, zap.String("file", path))
				return
			}
			if named, ok := errors.AsType[*file.FileError](err); ok {
				err = named.Err // the path is in a field of its own
			}
			log.Warn(manifestNotUsed, zap.String("file", path), zap.Error(err))
		},
		Logger: log,
	})
}

func newURL(f flags, decoder *manifest.Decoder, log *zap.Logger) (podconfig.Source, error) {
	header, err := f.urlHeaders.header()
	if err != nil {
		return nil, err
	}
	return url.New(url.Config{URL: f.manifestURL, Header: header, Decoder: decoder, Period: f.urlPeriod, Logger: log})
}

// newSources are where pods come from, but for the API server.
func newSources(f flags, log *zap.Logger) (sources []podconfig.Source, err error) {
	decoder := &manifest.Decoder{NodeName: types.NodeName(f.node), Strict: true, Policy: staticPolicy(f)}
	if f.manifests != "" {
		folder, err := newFolder(f, decoder, log)
		if err != nil {
			return nil, err
		}
		sources = append(sources, folder)
	}
	if f.manifestURL != "" {
		source, err := newURL(f, decoder, log)
		if err != nil {
			return nil, err
		}
		sources = append(sources, source)
	}
	return sources, nil
}

// staticPolicy says what static pods may use. What is on the node needs no API
// server: objects in a folder, and CSI drivers. What else a pod may ask for is
// refused by the agent.
func staticPolicy(f flags) func(*v1.Pod) error {
	switch {
	case f.objects != "":
		return func(*v1.Pod) error { return nil }
	case len(f.csiSockets) > 0:
		return func(pod *v1.Pod) error {
			rest := *pod
			rest.Spec.Volumes = slices.DeleteFunc(slices.Clone(pod.Spec.Volumes), func(vol v1.Volume) bool {
				return vol.CSI != nil && vol.CSI.NodePublishSecretRef == nil
			})
			return manifest.NoAPIReferences(&rest)
		}
	}
	return manifest.NoAPIReferences
}
