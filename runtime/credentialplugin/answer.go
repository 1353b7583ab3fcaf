// SPDX-License-Identifier: Apache-2.0

package credentialplugin

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/keelson-dev/keelson/internal/registry"
	"github.com/keelson-dev/keelson/runtime"
)

// request is a CredentialProviderRequest.
type request struct {
	Kind       string `json:"kind"`
	APIVersion string `json:"apiVersion"`
	Image      string `json:"image"`
}

// response is a CredentialProviderResponse.
type response struct {
	Kind          string  `json:"kind"`
	APIVersion    string  `json:"apiVersion"`
	CacheKeyType  string  `json:"cacheKeyType"`
	CacheDuration *string `json:"cacheDuration"`
	Auth          map[string]struct {
		Username string `json:"username"`
		Password string `json:"password"`
	} `json:"auth"`
}

// keyType is the range of images for which an answer is valid.
type keyType string

const (
	keyImage    keyType = "Image"
	keyRegistry keyType = "Registry"
	keyGlobal   keyType = "Global"
)

// answer is a usable answer of a plug-in.
type answer struct {
	key     keyType
	keep    time.Duration // 0: not at all
	entries []entry
}

// entry has the credentials for a registry or a part of a registry.
type entry struct {
	place registry.Place
	auth  runtime.ImageAuth
}

// errMalformed has no detail, because the errors of the JSON library quote values.
var errMalformed = errors.New("the answer is no CredentialProviderResponse")

// parseAnswer returns the answer in the output of a plug-in. Errors contain no credentials.
func parseAnswer(p Provider, data []byte) (answer, error) {
	var r response
	if json.Unmarshal(data, &r) != nil || r.Kind != "CredentialProviderResponse" {
		return answer{}, errMalformed
	}
	a := answer{key: keyType(r.CacheKeyType), keep: p.DefaultCacheDuration}
	switch {
	case r.APIVersion != p.APIVersion:
		return answer{}, fmt.Errorf("the answer has not the apiVersion %s", p.APIVersion)
	case a.key != keyImage && a.key != keyRegistry && a.key != keyGlobal:
		return answer{}, errors.New("the cacheKeyType of the answer is not Image, Registry or Global")
	}
	if r.CacheDuration != nil {
		var err error
		if a.keep, err = time.ParseDuration(*r.CacheDuration); err != nil || a.keep < 0 {
			return answer{}, errors.New("the cacheDuration of the answer is no duration")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Auth)) {
		place, ok := registry.Parse(name)
		auth := runtime.ImageAuth{Username: r.Auth[name].Username, Password: r.Auth[name].Password}
		if ok && auth != (runtime.ImageAuth{}) {
			a.entries = append(a.entries, entry{place, auth})
		}
	}
	return a, nil
}

// covering returns the credentials for an image, the closest match first.
func covering(entries []entry, image registry.Place) (auths []runtime.ImageAuth) {
	entries = slices.DeleteFunc(slices.Clone(entries), func(e entry) bool { return !e.place.Covers(image) })
	slices.SortStableFunc(entries, func(a, b entry) int { return registry.Compare(a.place, b.place) })
	for _, e := range entries {
		auths = append(auths, e.auth)
	}
	return auths
}
