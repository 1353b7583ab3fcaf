// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.uber.org/zap"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/internal/failurelog"
	"github.com/keelson-dev/keelson/internal/retry"
	"github.com/keelson-dev/keelson/podconfig/file/fsnotify"
	"github.com/keelson-dev/keelson/podconfig/manifest"
	"github.com/keelson-dev/keelson/volumemanager/plugins/objects"
)

// objectFolder keeps a store in line with a folder of manifests of ConfigMaps and Secrets, for
// nodes without an API server.
type objectFolder struct {
	path  string
	store *objects.Store
	log   *zap.Logger
	files map[string]*objectFile // by name
}

// objectFile is the state of one file. If the file becomes invalid, its last valid objects stay in
// the store.
type objectFile struct {
	held    map[objects.Ref]bool
	size    int64
	changed time.Time
	problem string
}

func newObjectFolder(path string, store *objects.Store, log *zap.Logger) *objectFolder {
	return &objectFolder{path: path, store: store, log: log, files: make(map[string]*objectFile)}
}

const (
	objectsSettle = 20 * time.Millisecond // lets a program finish writing
	objectsPeriod = 10 * time.Second      // between two passes without a notification
	maxObjectFile = 16 << 20
)

// follow updates the store until ctx ends. It closes ready after the first pass.
func (o *objectFolder) follow(ctx context.Context, ready chan<- struct{}) {
	hints, err := fsnotify.Hinter{}.Hints(ctx, o.path)
	if err != nil {
		o.log.Warn("changes of objects are not watched: the folder is read every 10 s", zap.Error(err))
	}
	o.look()
	close(ready)
	for {
		select {
		case <-ctx.Done():
			return
		case _, alive := <-hints:
			if !alive {
				hints = nil
			}
			_ = retry.Sleep(ctx, objectsSettle)
		case <-time.After(objectsPeriod):
			if hints == nil {
				hints, _ = fsnotify.Hinter{}.Hints(ctx, o.path)
			}
		}
		o.look()
	}
}

// look updates the store from the folder. If the folder cannot be listed, the store is unchanged.
func (o *objectFolder) look() {
	entries, err := os.ReadDir(o.path)
	if err != nil {
		o.say(".", err)
		return
	}
	o.say(".", nil)
	found := make(map[string]bool, len(entries))
	for _, e := range entries {
		if name := e.Name(); isManifest(name) {
			found[name] = true
			o.say(name, o.read(name))
		}
	}
	for name, f := range o.files {
		if !found[name] && name != "." {
			o.say(name, nil)
			delete(o.files, name)
			o.drop(f, nil)
		}
	}
}

func isManifest(name string) bool {
	switch filepath.Ext(name) {
	case ".yaml", ".yml", ".json":
		return !strings.HasPrefix(name, ".")
	}
	return false
}

func (o *objectFolder) file(name string) *objectFile {
	f := o.files[name]
	if f == nil {
		f = &objectFile{}
		o.files[name] = f
	}
	return f
}

// say logs the problem of a file, or its end, if the problem has changed.
func (o *objectFolder) say(name string, err error) {
	f, text := o.file(name), ""
	if err != nil {
		text = err.Error()
	}
	if f.problem == text {
		return
	}
	f.problem = text
	if err != nil {
		o.log.Warn(objectsNotUsed, zap.String("file", filepath.Join(o.path, name)), zap.Error(err))
	} else {
		o.log.Info("problem with objects is over", zap.String("file", filepath.Join(o.path, name)), failurelog.Ends(objectsNotUsed))
	}
}

// read updates the store from a file that has changed since the last call.
func (o *objectFolder) read(name string) error {
	f, path := o.file(name), filepath.Join(o.path, name)
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return errors.New("it is no regular file")
	case info.Size() > maxObjectFile:
		return fmt.Errorf("it is larger than %d MiB", maxObjectFile>>20)
	case f.held != nil && f.problem == "" && f.size == info.Size() && f.changed.Equal(info.ModTime()):
		return nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	all, err := decodeObjects(data)
	if err != nil {
		return err
	}
	held := make(map[objects.Ref]bool, len(all))
	for _, object := range all {
		ref := object.ref()
		held[ref] = true
		if object.configMap != nil {
			o.store.SetConfigMap(object.configMap)
		} else {
			o.store.SetSecret(object.secret)
		}
	}
	o.drop(f, held)
	f.held, f.size, f.changed = held, info.Size(), info.ModTime()
	return nil
}

// drop removes the objects of a file that are not in is. If another file has the same object, for
// example after a rename, the object stays, and that file is read again.
func (o *objectFolder) drop(from *objectFile, is map[objects.Ref]bool) {
	for ref := range from.held {
		if is[ref] {
			continue
		}
		elsewhere := false
		for _, f := range o.files {
			if f != from && f.held[ref] {
				elsewhere, f.changed = true, time.Time{} // forces a read
			}
		}
		if !elsewhere {
			o.store.Delete(ref)
		}
	}
}

type object struct {
	configMap *v1.ConfigMap
	secret    *v1.Secret
}

func (o object) ref() objects.Ref {
	if o.configMap != nil {
		return objects.Ref{Kind: objects.ConfigMap, Namespace: o.configMap.Namespace, Name: o.configMap.Name}
	}
	return objects.Ref{Kind: objects.Secret, Namespace: o.secret.Namespace, Name: o.secret.Name}
}

// decodeObjects decodes the documents of a YAML or JSON text. Errors name the document or the place
// in the file, and quote no value.
func decodeObjects(data []byte) (all []object, err error) {
	documents, err := manifest.Objects(data, maxObjectFile+1)
	if errors.Is(err, manifest.ErrEmpty) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for i, document := range documents {
		one, err := decodeObject(document)
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", i+1, err)
		}
		all = append(all, one)
	}
	return all, nil
}

func decodeObject(document []byte) (o object, err error) {
	var kind metav1.TypeMeta
	if err := json.Unmarshal(document, &kind); err != nil {
		return o, errors.New("not an object")
	}
	strict := json.NewDecoder(bytes.NewReader(document))
	strict.DisallowUnknownFields()
	var meta *metav1.ObjectMeta
	switch {
	case kind.APIVersion == "v1" && kind.Kind == "ConfigMap":
		o.configMap = &v1.ConfigMap{}
		meta, err = &o.configMap.ObjectMeta, strict.Decode(o.configMap)
	case kind.APIVersion == "v1" && kind.Kind == "Secret":
		o.secret = &v1.Secret{}
		meta, err = &o.secret.ObjectMeta, strict.Decode(o.secret)
	default:
		return o, fmt.Errorf("it is a %q of %q: want a ConfigMap or Secret of v1", kind.Kind, kind.APIVersion)
	}
	if err != nil {
		return o, fmt.Errorf("not a valid %s", kind.Kind) // the decoder's error would quote the content
	}
	if meta.Name == "" {
		return o, fmt.Errorf("the %s has no metadata.name", kind.Kind)
	}
	meta.Namespace = cmp.Or(meta.Namespace, v1.NamespaceDefault)
	return o, nil
}
