// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v2"
)

// maxMarks bounds the characters of a YAML text that can begin a value. The parser builds its whole tree, at about 200
// bytes a value, before anything can be counted in it; so a text that could hold very many is refused unparsed. Text in
// scalars counts too, hence the room above maxValues.
const maxMarks = 4 * maxValues

// readYAML reads the non-null documents of a YAML text, at most most+1. YAML is read as Kubernetes reads it: version
// 1.1, so that "yes" is a boolean and 0644 is octal.
func readYAML(data []byte, most int, maxBytes int64) ([]document, error) {
	if countMarks(data) > maxMarks {
		return nil, fmt.Errorf("%w: more than %d values", ErrTooLarge, maxMarks)
	}
	docs, err := readYAMLStream(data, most, maxBytes, yamlStrict)
	var repeated *repeatedKeys
	if !errors.As(err, &repeated) {
		return docs, err
	}
	docs, err = readYAMLStream(data, most, maxBytes, yamlLenient)
	if len(docs) > 0 {
		docs[0].duplicates = repeated.texts
	}
	return docs, err
}

type yamlMode uint8

const (
	yamlLenient yamlMode = iota // the last of equal keys wins, as in the kubelet
	yamlStrict                  // equal keys are repeatedKeys
)

// repeatedKeys carries the parser's complaints about equal keys.
type repeatedKeys struct{ texts []string }

func (e *repeatedKeys) Error() string { return joinProblems(e.texts) }

func readYAMLStream(data []byte, most int, maxBytes int64, mode yamlMode) ([]document, error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	// The parser calls it a repeated key when a key overrides a merged one ("<<: *base"), which is what merging is for.
	dec.SetStrict(mode == yamlStrict && !bytes.Contains(data, []byte("<<:")))
	var docs []document
	var repeated []string
	for len(docs) <= most {
		var raw any
		err := dec.Decode(&raw)
		var typeErr *yaml.TypeError
		switch {
		case errors.Is(err, io.EOF):
			if len(repeated) > 0 {
				return nil, &repeatedKeys{texts: repeated}
			}
			return docs, nil
		case errors.As(err, &typeErr):
			repeated = append(repeated, repeatedTexts(typeErr.Errors)...)
		case err != nil:
			return nil, fmt.Errorf("%w: %s", ErrSyntax, yamlReason(err))
		}
		root, err := fromYAML(raw, 1, newBudget(maxBytes))
		if err != nil {
			return nil, err
		}
		if root != nil {
			docs = append(docs, document{root: root})
		}
	}
	if len(repeated) > 0 {
		return nil, &repeatedKeys{texts: repeated}
	}
	return docs, nil
}

var alreadySet = regexp.MustCompile(`^(line \d+): key (.*) already set in map$`)

func repeatedTexts(complaints []string) []string {
	texts := make([]string, len(complaints))
	for i, c := range complaints {
		texts[i] = oneLine(c)
		if m := alreadySet.FindStringSubmatch(texts[i]); m != nil {
			texts[i] = fmt.Sprintf("duplicate key %s at %s", shorten(m[2]), m[1])
		}
	}
	return texts
}

// quotedValue is how the parser quotes a piece of the text in its complaints; that piece may be a secret.
var quotedValue = regexp.MustCompile("`[^`]*`")

func yamlReason(err error) string {
	text := strings.TrimPrefix(oneLine(err.Error()), "yaml: ")
	if strings.HasPrefix(text, "invalid map key: ") { // what follows is the key as Go writes it, with all that is in it
		return "a key is a list or a map (as in a template that is not filled in)"
	}
	return cutTo(quotedValue.ReplaceAllString(text, "a value"), 4*shownBytes) // anchors and tags it repeats can be of any length
}

// countMarks counts the bytes that can begin a value: flow indicators, and block indicators followed by white space.
func countMarks(data []byte) int {
	n := 0
	for i, c := range data {
		switch c {
		case ',', '[', '{':
			n++
		case '-', ':', '?':
			if i+1 == len(data) || data[i+1] <= ' ' {
				n++
			}
		}
	}
	return n
}

// fromYAML turns the parser's values into a tree. The parser shares the memory of aliased values and bounds how often
// it follows an alias; the budget bounds what they come to when written out.
func fromYAML(raw any, depth int, b *budget) (any, error) {
	size := 1
	if s, ok := raw.(string); ok {
		size = len(s)
	}
	if err := b.spend(depth, size); err != nil {
		return nil, err
	}
	switch v := raw.(type) {
	case map[any]any:
		return fromYAMLMap(v, depth, b)
	case []any:
		list := make([]any, len(v))
		for i, item := range v {
			var err error
			if list[i], err = fromYAML(item, depth+1, b); err != nil {
				return nil, err
			}
		}
		return list, nil
	case string, bool, nil:
		return v, nil
	}
	number, ok := yamlNumber(raw)
	if !ok {
		return nil, fmt.Errorf("%w: a number is infinite or undefined", ErrSyntax)
	}
	return json.Number(number), nil
}

func fromYAMLMap(raw map[any]any, depth int, b *budget) (any, error) {
	m := make(map[string]any, len(raw))
	for k, item := range raw {
		key, err := yamlKey(k)
		if err != nil {
			return nil, err
		}
		v, err := fromYAML(item, depth+1, b)
		if err != nil {
			return nil, err
		}
		b.bytes -= int64(len(key))
		if v != nil {
			m[key] = v
		}
	}
	return m, nil
}

func yamlKey(k any) (string, error) {
	switch k := k.(type) {
	case string:
		return k, nil
	case bool:
		return strconv.FormatBool(k), nil
	case nil:
		return "", fmt.Errorf("%w: a key is null", ErrSyntax)
	}
	if key, ok := yamlNumber(k); ok {
		return key, nil
	}
	return "", fmt.Errorf("%w: a key is neither text nor number", ErrSyntax)
}

func yamlNumber(raw any) (string, bool) {
	switch v := raw.(type) {
	case int:
		return strconv.Itoa(v), true
	case int64:
		return strconv.FormatInt(v, 10), true
	case uint64:
		return strconv.FormatUint(v, 10), true
	case float64:
		if math.IsInf(v, 0) || math.IsNaN(v) {
			return "", false
		}
		return strconv.FormatFloat(v, 'g', -1, 64), true
	}
	return "", false
}
