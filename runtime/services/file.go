// SPDX-License-Identifier: Apache-2.0

package services

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/internal/atomicfile"
	"github.com/keelson-dev/keelson/internal/failurelog"
	"github.com/keelson-dev/keelson/internal/retry"
)

const (
	// settleTime is the time for collecting changes before the file is written.
	settleTime = time.Second
	// maxFile is the maximum number of bytes read from the file.
	maxFile = 64 << 20
)

// remember reads the file of an earlier agent. A missing file is no error, and an unusable file
// counts as missing.
func (s *Cache) remember() {
	list, err := readFile(s.file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return
	case err != nil:
		s.log.Warn("the recorded Services are not used", zap.String("file", s.file), zap.Error(err))
		return
	}
	for i := range list.Items {
		put(s.mu.all, stripped(&list.Items[i]))
	}
	s.remembered = true
}

func readFile(path string) (*v1.ServiceList, error) {
	data, err := atomicfile.ReadPath(path, maxFile)
	if err != nil {
		return nil, err
	}
	list := &v1.ServiceList{}
	if err := json.Unmarshal(data, list); err != nil {
		return nil, fmt.Errorf("it is no list of Services: %w", err)
	}
	if list.Kind != "ServiceList" {
		return nil, errors.New("it is no list of Services")
	}
	return list, nil
}

// keep writes the file after changes, until ctx ends.
func (s *Cache) keep(ctx context.Context) {
	failed := failurelog.Log{
		Logger: s.log.With(zap.String("file", s.file)), Failed: "the Services are not known after a restart without an API server",
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.changed:
		}
		_ = retry.Sleep(ctx, settleTime) // the last changes are written
		failed.Report(replaceFile(s.file, s.encode()))
	}
}

// encode returns the known Services as a list, ordered by name.
func (s *Cache) encode() []byte {
	list := v1.ServiceList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceList"}}
	s.mu.Lock()
	for _, named := range s.mu.all {
		for _, one := range named {
			list.Items = append(list.Items, *one)
		}
	}
	s.mu.Unlock()
	slices.SortFunc(list.Items, func(a, b v1.Service) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	data, _ := json.Marshal(list) // strings and numbers cannot fail
	return append(data, '\n')
}

// replaceFile replaces the content of the file at path, or leaves the file unchanged after an
// error. A file with equal content is not written.
func replaceFile(path string, data []byte) error {
	if old, err := atomicfile.ReadPath(path, maxFile); err == nil && bytes.Equal(old, data) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return atomicfile.WritePath(path, data)
}
