// SPDX-License-Identifier: Apache-2.0

package nodeserver

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// logOptions decodes and checks the parameters of /containerLogs. If they are wrong, the options are
// nil, and code and text are the answer.
func logOptions(query url.Values) (opts *v1.PodLogOptions, code int, text string) {
	opts, ok := decodeLogOptions(query)
	switch {
	case !ok:
		return nil, http.StatusBadRequest, `{"message": "Unable to decode query."}`
	case !validLogOptions(opts):
		return nil, http.StatusUnprocessableEntity, `{"message": "Invalid request."}`
	}
	return opts, 0, ""
}

// decodeLogOptions decodes the first value of each parameter, as the API server does. The parameter
// tail is the old name of tailLines; its value "all" means no limit.
func decodeLogOptions(query url.Values) (*v1.PodLogOptions, bool) {
	opts := &v1.PodLogOptions{
		Follow:     flag(query, "follow"),
		Previous:   flag(query, "previous"),
		Timestamps: flag(query, "timestamps"),
	}
	tail := "tailLines"
	if query.Has("tail") {
		tail = "tail"
	}
	ok := true
	for name, field := range map[string]**int64{tail: &opts.TailLines, "sinceSeconds": &opts.SinceSeconds, "limitBytes": &opts.LimitBytes} {
		if !query.Has(name) || name == "tail" && query.Get(name) == "all" {
			continue
		}
		n, err := strconv.ParseInt(query.Get(name), 10, 64)
		ok = ok && err == nil
		*field = &n
	}
	if text := query.Get("sinceTime"); text != "" {
		opts.SinceTime = &metav1.Time{}
		ok = ok && opts.SinceTime.UnmarshalQueryParameter(text) == nil
	}
	if query.Has("stream") {
		stream := query.Get("stream")
		opts.Stream = &stream
	}
	return opts, ok
}

// flag decodes a boolean parameter. A parameter without a value is true.
func flag(query url.Values, name string) bool {
	value := query.Get(name)
	return query.Has(name) && value != "0" && !strings.EqualFold(value, "false")
}

func validLogOptions(o *v1.PodLogOptions) bool {
	switch {
	case o.TailLines != nil && *o.TailLines < 0,
		o.LimitBytes != nil && *o.LimitBytes < 1,
		o.SinceSeconds != nil && *o.SinceSeconds < 1,
		o.SinceSeconds != nil && o.SinceTime != nil:
		return false
	case o.Stream == nil:
		return true
	}
	return *o.Stream == v1.LogStreamAll || *o.Stream == v1.LogStreamStdout || *o.Stream == v1.LogStreamStderr
}
