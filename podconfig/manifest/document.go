// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"
)

// readDocuments reads the non-null documents of a YAML or JSON text.
func readDocuments(data []byte, most int, maxBytes int64) ([]document, error) {
	if int64(len(data)) >= maxBytes {
		return nil, TooLarge(maxBytes)
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if err := checkText(data); err != nil {
		return nil, err
	}
	trimmed := bytes.TrimSpace(data)
	if len(trimmed) == 0 {
		return nil, ErrEmpty
	}
	docs, err := []document(nil), errNotJSON
	if trimmed[0] == '{' || trimmed[0] == '[' {
		docs, err = readJSON(trimmed, most, maxBytes)
	}
	if errors.Is(err, errNotJSON) {
		docs, err = readYAML(data, most, maxBytes)
	}
	switch {
	case err != nil:
		return nil, err
	case len(docs) == 0:
		return nil, ErrEmpty
	case len(docs) > most:
		return nil, ErrDocuments
	}
	return docs, nil
}

// TooLarge returns the error for a manifest of limit bytes or more, for a caller that finds out before reading it.
func TooLarge(limit int64) error {
	return fmt.Errorf("%w: it must be smaller than %d bytes", ErrTooLarge, limit)
}

// checkText refuses bytes that neither YAML nor JSON allows, before a parser describes them in terms of YAML.
func checkText(data []byte) error {
	for i, c := range data {
		if c < ' ' && c != '\t' && c != '\n' && c != '\r' || c == 0x7f {
			return fmt.Errorf("%w: byte %#02x at offset %d", ErrNotText, c, i)
		}
	}
	if !utf8.Valid(data) {
		return fmt.Errorf("%w: it is not UTF-8", ErrNotText)
	}
	return nil
}
