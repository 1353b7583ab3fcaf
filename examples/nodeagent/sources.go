// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.uber.org/zap"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/updates"
	"github.com/keelson-dev/keelson/internal/failurelog"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podconfig/file"
	"github.com/keelson-dev/keelson/podconfig/file/fsnotify"
	"github.com/keelson-dev/keelson/podconfig/manifest"
	"github.com/keelson-dev/keelson/podconfig/url"
)

// newFolder returns the source for manifest files. A problem with a file, and the end of the
// problem, is one log line each.
func newFolder(f flags, decoder *manifest.Decoder, kinds *localKinds, transactions *updates.Updates, log *zap.Logger) (podconfig.Source, error) {
	return file.New(file.Config{
		Path:    f.manifests,
		Decoder: decoder,
		Decode:  kinds.decode(),
		Hinter:  fsnotify.Hinter{},
		Problem: func(path string, err error) {
			if transactions != nil {
				transactions.Problem(path, err)
			}
			if err == nil {
				log.Info("manifest problem is over", zap.String("file", path), failurelog.Ends(manifestNotUsed))
				return
			}
			log.Warn(manifestNotUsed, zap.String("file", path), zap.Error(err))
		},
		Logger: log,
	})
}

func newURL(f flags, decoder *manifest.Decoder, kinds *localKinds, log *zap.Logger) (podconfig.Source, error) {
	header, err := f.urlHeaders.header()
	if err != nil {
		return nil, err
	}
	return url.New(url.Config{URL: f.manifestURL, Header: header, Decoder: decoder, Decode: kinds.decode(), Period: f.urlPeriod, Logger: log})
}

// newSources returns all sources except the API server.
func newSources(f flags, kinds *localKinds, transactions *updates.Updates, log *zap.Logger) (sources []podconfig.Source, err error) {
	decoder := newDecoder(f)
	if f.manifests != "" {
		folder, err := newFolder(f, decoder, kinds, transactions, log)
		if err != nil {
			return nil, err
		}
		sources = append(sources, folder)
	}
	if f.manifestURL != "" {
		source, err := newURL(f, decoder, kinds, log)
		if err != nil {
			return nil, err
		}
		sources = append(sources, source)
	}
	return kinds.wrap(sources), nil
}

// newDecoder returns the decoder of manifests.
func newDecoder(f flags) *manifest.Decoder {
	return &manifest.Decoder{
		NodeName: types.NodeName(f.node), Strict: true, Policy: staticPolicy(f),
		OnlyHostNetwork: f.endpoint == processEndpoint && f.network.kind == networkHost,
	}
}

// staticPolicy returns the check of references in static pods. ConfigMaps and Secrets of a folder,
// and CSI drivers, are available without an API server. The agent refuses other unsupported fields.
func staticPolicy(f flags) func(*v1.Pod) error {
	if f.objects != "" {
		return func(*v1.Pod) error { return nil }
	}
	return func(pod *v1.Pod) error {
		rest := *pod
		if len(f.csiSockets) > 0 {
			rest.Spec.Volumes = slices.Clone(pod.Spec.Volumes)
			for i, vol := range rest.Spec.Volumes {
				if vol.CSI != nil && vol.CSI.NodePublishSecretRef == nil {
					rest.Spec.Volumes[i].VolumeSource = v1.VolumeSource{} // without removing the element, so that indexes in errors are right
				}
			}
		}
		err := manifest.NoAPIReferences(&rest)
		if reference, ok := errors.AsType[*manifest.ReferenceError](err); ok {
			return fmt.Errorf("%w: %s", err, remedyFor(reference.Resource))
		}
		return err
	}
}

// remedyFor returns advice for a static pod that refers to an unavailable resource.
func remedyFor(resource string) string {
	switch kind, _, _ := strings.Cut(resource, " "); kind {
	case "configmaps", "secrets":
		return "put their manifests into a folder and start with --objects-path FOLDER"
	case "csidrivers":
		return "start with --csi-sockets DRIVER=unix:///PATH"
	}
	return "create the pod on an API server, and start with --kubeconfig"
}
