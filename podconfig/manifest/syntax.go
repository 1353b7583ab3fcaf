// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"sort"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// searchBytes limits the text for the search of syntaxLine.
const searchBytes = 256 << 10

var reportedLine = regexp.MustCompile(`^line (\d+): `)

// quotedValue matches a piece of the text quoted by the parser, which may be a secret.
var quotedValue = regexp.MustCompile("`[^`]*`")

// syntaxError returns the error with a remedy for a text that the parser rejects.
func syntaxError(data []byte, err error) error {
	reason := strings.TrimPrefix(oneLine(err.Error()), "yaml: ")
	line := 1
	if m := reportedLine.FindStringSubmatch(reason); m != nil {
		line, _ = strconv.Atoi(m[1])
		reason = strings.TrimPrefix(reason, m[0])
	}
	line = syntaxLine(data, err, line)
	text := lineOf(data, line)
	indent := text[:len(text)-len(strings.TrimLeft(text, " \t"))]
	at := Position{Line: line, Column: 1 + len(indent)}
	if tab := strings.IndexByte(indent, '\t'); tab >= 0 {
		return problem(Position{Line: line, Column: 1 + tab}, ErrSyntax, "a tab in the indentation: use spaces")
	}
	return problem(at, ErrSyntax, plainReason(reason))
}

// syntaxLine returns the line, counted from 1, with the syntax error err: the end of the shortest
// prefix of data that fails with the same error. The parser reports the first line of the
// surrounding block, which may be far above. For a text of more than searchBytes, syntaxLine
// returns the parser's line.
func syntaxLine(data []byte, err error, reported int) int {
	var ends []int
	for end := 0; end < len(data) && len(data) <= searchBytes; {
		line, _, _ := bytes.Cut(data[end:], []byte("\n"))
		end = min(len(data), end+len(line)+1)
		ends = append(ends, end)
	}
	line := sort.Search(len(ends), func(i int) bool {
		failed := parse(data[:ends[i]])
		return failed != nil && failed.Error() == err.Error()
	})
	if line == len(ends) {
		return reported
	}
	return line + 1
}

// parse returns the parser's error for text, or nil.
func parse(text []byte) error {
	dec := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var n yaml.Node
		if err := dec.Decode(&n); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// lineOf returns a line, counted from 1, without its end.
func lineOf(data []byte, line int) string {
	for range line - 1 {
		_, data, _ = bytes.Cut(data, []byte("\n"))
	}
	text, _, _ := bytes.Cut(data, []byte("\n"))
	return string(text)
}

// plainReason translates a reason of the parser for authors of manifests.
func plainReason(reason string) string {
	for _, known := range []struct{ says, means string }{
		{"did not find expected key", "the line does not fit the lines above it: check its indentation"},
		{"did not find expected '-' indicator", "the line does not fit the list above it: check its indentation, and that an item begins with \"- \""},
		{"did not find expected ',' or", "a [ or { is not closed here, or a comma is missing"},
		{"did not find expected node content", "a value or a closing ] or } is missing"},
		{"found unexpected end of stream", "a quote that begins here is not closed"},
		{"mapping values are not allowed", "a second \"key:\" on one line, or a wrong indentation: put a value that contains \": \" in quotes"},
		{"could not find expected ':'", "expected \"key: value\", and found no colon"},
		{"found character that cannot start any token", "a value cannot begin with this character: put it in quotes"},
		{"unknown anchor", "an alias (*name) without its anchor (&name): put a value that begins with * in quotes"},
		{"did not find expected alphabetic or numeric character", "a value cannot begin with * or & or !: put it in quotes"},
		{"found unknown escape character", "an unknown escape in double quotes: use single quotes, or write \\\\ for a backslash"},
		{"did not find expected <document start>", "text after the end of a document: check the indentation of the first line"},
	} {
		if strings.Contains(reason, known.says) {
			return known.means
		}
	}
	return cutTo(quotedValue.ReplaceAllString(reason, "a value"), 4*shownBytes) // limited because anchors and tags can have any length
}
