// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"net/http"
	"strings"
)

// urlHeaders are the values of --manifest-url-header as they were given. They may be
// secrets, and package pflag shows what Set refuses: so it refuses nothing.
type urlHeaders []string

// String implements pflag.Value; --help shows it.
func (*urlHeaders) String() string { return "" }

// Set implements pflag.Value.
func (u *urlHeaders) Set(text string) error {
	*u = append(*u, text)
	return nil
}

// Type implements pflag.Value.
func (*urlHeaders) Type() string { return "name:value,..." }

// errURLHeader quotes nothing.
var errURLHeader = errors.New("--manifest-url-header: want name:value, or several with commas between them")

// header reads the kubelet's form, "a:hello,b:again"; "=" may take the place of ":".
// What is there several times is sent several times.
func (u *urlHeaders) header() (http.Header, error) {
	header := make(http.Header)
	for _, text := range *u {
		for pair := range strings.SplitSeq(text, ",") {
			at := strings.IndexAny(pair, ":=")
			if at < 0 {
				return nil, errURLHeader
			}
			name, value := strings.TrimSpace(pair[:at]), strings.TrimSpace(pair[at+1:])
			if name == "" || strings.ContainsAny(name, " \t\r\n\"(),/;<>?@[]\\{}") || strings.ContainsAny(value, "\r\n\x00") {
				return nil, errURLHeader
			}
			header.Add(name, value)
		}
	}
	return header, nil
}
