// SPDX-License-Identifier: Apache-2.0

package apiservertest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
)

// Revision returns the revision of etcd's last change, which equals the resource version of a list
// at present.
func (s *Server) Revision(ctx context.Context) (int64, error) {
	var answer struct {
		Header struct {
			Revision int64 `json:"revision,string"`
		} `json:"header"`
	}
	body, err := s.etcd(ctx, "/v3/kv/range", map[string][]byte{"key": []byte("/")})
	if err == nil {
		err = json.Unmarshal(body, &answer)
	}
	return answer.Header.Revision, err
}

// Compact makes etcd drop all earlier revisions. A request for an earlier revision then gets 410
// "Gone", unless the watch cache of kube-apiserver answers the request. The cache keeps all changes
// since its start, and is empty only after a Restart.
func (s *Server) Compact(ctx context.Context) error {
	revision, err := s.Revision(ctx)
	if err != nil {
		return err
	}
	_, err = s.etcd(ctx, "/v3/kv/compaction", compaction{revision, true})
	return err
}

// compaction is a request of etcd's JSON gateway.
type compaction struct {
	Revision int64 `json:"revision,string"`
	Physical bool  `json:"physical"` // answer after the compaction
}

// etcd posts a request to the JSON gateway of etcd.
func (s *Server) etcd(ctx context.Context, path string, request any) ([]byte, error) {
	body, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.EtcdURL+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	answer, err := s.do(req)
	if err != nil {
		return nil, fmt.Errorf("etcd: %w", err)
	}
	return answer, nil
}
