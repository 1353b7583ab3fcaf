// SPDX-License-Identifier: Apache-2.0

package nodeconfig

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// File is a configuration file. Errors contain its Name.
type File struct {
	Name string
	Data []byte
}

// Setting is the value of a flag.
type Setting struct {
	Flag, Value string
	Field       string // field with the value
}

// Notice is a field without effect.
type Notice struct {
	File  string
	Line  int
	Field string
	// Unknown: KubeletConfiguration v1beta1 has no such field.
	Unknown bool
}

// Config is the merged content of the files.
type Config struct {
	Settings []Setting
	Notices  []Notice
}

// Parse merges the files in their order, the main file first, and returns the settings. The error
// joins a *FieldError for each value that the agent cannot honour.
func Parse(files []File) (Config, error) {
	var all value
	for _, f := range files {
		v, err := parse(f)
		if err == nil {
			err = checkType(v)
		}
		if err != nil {
			return Config{}, err
		}
		all = merge(all, v)
	}
	delete(all.fields, "apiVersion")
	delete(all.fields, "kind")
	var c Config
	var errs []error
	for _, f := range fields() {
		if err := c.read(f, all.fields); err != nil {
			errs = append(errs, err)
		}
	}
	leaves("", all.fields, func(path string, v value) {
		if v.fields == nil && v.tag != "!!null" {
			c.Notices = append(c.Notices, Notice{File: v.file, Line: v.line, Field: path, Unknown: true})
		}
	})
	return c, errors.Join(errs...)
}

// read takes a field out of all and applies the field's rule.
func (c *Config) read(f field, all map[string]value) error {
	v, found, err := take(all, strings.Split(f.path, "."))
	text, set := "", false
	if found && err == nil && f.rule != ruleIgnore {
		text, set, err = format(f, v)
	}
	switch {
	case err != nil:
		return &FieldError{File: v.file, Line: v.line, Field: f.path, Why: err.Error()}
	case f.rule == ruleIgnore:
		if found && !isZero(v) {
			c.Notices = append(c.Notices, Notice{File: v.file, Line: v.line, Field: f.path})
		}
	case !set:
		if f.unset != "" {
			c.Settings = append(c.Settings, Setting{f.flag, f.unset, f.path})
		}
	case f.rule == ruleOnly:
		return only(f, v, text)
	case f.rule == rulePath:
		c.Settings = append(c.Settings, Setting{f.flag, resolve(v.file, text), f.path})
	default:
		c.Settings = append(c.Settings, Setting{f.flag, text, f.path})
	}
	return nil
}

// only refuses a value other than the allowed ones.
func only(f field, v value, text string) error {
	if slices.ContainsFunc(f.allowed, func(a string) bool { return same(f.kind, a, text) }) {
		return nil
	}
	why := "this agent does not support the field: remove it"
	if len(f.allowed) > 0 {
		why = fmt.Sprintf("this agent supports only %s: set it to that or remove it", strings.Join(f.allowed, " and "))
	}
	return &FieldError{File: v.file, Line: v.line, Field: f.path, Why: why}
}
