// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"net/http"

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
				log.Info("manifest problem is over", zap.String("file", path))
				return
			}
			if named, ok := errors.AsType[*file.FileError](err); ok {
				err = named.Err // the path is in a field of its own
			}
			log.Warn("manifest not used", zap.String("file", path), zap.Error(err))
		},
		Logger: log,
	})
}

func newURL(f flags, decoder *manifest.Decoder, log *zap.Logger) (podconfig.Source, error) {
	header := make(http.Header, len(f.urlHeaders))
	for name, value := range f.urlHeaders {
		header.Set(name, value)
	}
	return url.New(url.Config{URL: f.manifestURL, Header: header, Decoder: decoder, Period: f.urlPeriod, Logger: log})
}

// newSources are where pods come from, but for the API server.
func newSources(f flags, log *zap.Logger) (sources []podconfig.Source, err error) {
	decoder := &manifest.Decoder{NodeName: types.NodeName(f.node), Strict: true}
	if f.objects != "" {
		// The objects are on the node, so a static pod that uses them needs no API
		// server. What else a pod may ask for is refused by the agent.
		decoder.Policy = func(*v1.Pod) error { return nil }
	}
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
