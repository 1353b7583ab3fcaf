// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"net/http"
	"strings"
)

// urlHeaders holds the unparsed values of --manifest-url-header. Values may be secrets, and package
// pflag prints the values that Set refuses. So Set accepts every value, and header validates later.
type urlHeaders []string

// String implements pflag.Value. --help prints the result, so it is empty.
func (*urlHeaders) String() string { return "" }

// Set implements pflag.Value.
func (u *urlHeaders) Set(text string) error {
	*u = append(*u, text)
	return nil
}

// Type implements pflag.Value.
func (*urlHeaders) Type() string { return "name:value,..." }

// errURLHeader contains no part of a value, because values may be secrets.
var errURLHeader = errors.New("--manifest-url-header: want name:value, or several with commas between them")

// header parses the kubelet's form, "a:hello,b:again". Between name and value, "=" is also accepted. A
// name may have several values.
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
