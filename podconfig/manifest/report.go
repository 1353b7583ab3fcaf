// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/internal/spelling"
)

// report collects the errors of a pod. Only methods with a value include the value, shortened. Use
// them for names, paths and numbers, never for possible secrets.
type report struct {
	errs field.ErrorList
}

func (r *report) required(p *field.Path, detail string) {
	r.errs = append(r.errs, field.Required(p, detail))
}

func (r *report) forbidden(p *field.Path, detail string) {
	r.errs = append(r.errs, field.Forbidden(p, detail))
}

func (r *report) invalid(p *field.Path, value, detail string) {
	r.errs = append(r.errs, field.Invalid(p, shorten(value), detail))
}

// hidden reports an invalid value without including it.
func (r *report) hidden(p *field.Path, detail string) {
	r.errs = append(r.errs, field.Invalid(p, field.OmitValueType{}, detail))
}

func (r *report) duplicate(p *field.Path, value string) {
	err := field.Duplicate(p, shorten(value))
	err.Detail = "it is used already, choose another"
	r.errs = append(r.errs, err)
}

func (r *report) number(p *field.Path, value int64, detail string) {
	r.errs = append(r.errs, field.Invalid(p, value, detail))
}

func (r *report) notNegative(p *field.Path, value int64) {
	if value < 0 {
		r.number(p, value, "must not be negative")
	}
}

// faults reports the complaints of apimachinery's validation functions about value.
func (r *report) faults(p *field.Path, value string, complaints []string) {
	for _, c := range complaints {
		if text, _, long := strings.Cut(c, ", regex used for validation is "); long {
			c = text + ")"
		}
		r.invalid(p, value, c)
	}
}

// numberFaults is faults for a number.
func (r *report) numberFaults(p *field.Path, value int64, complaints []string) {
	for _, c := range complaints {
		r.number(p, value, c)
	}
}

// match reports the complaints of test about value.
func (r *report) match(p *field.Path, value string, test func(string) []string) {
	r.faults(p, value, test(value))
}

// optional is match for a value that may be empty.
func (r *report) optional(p *field.Path, value string, test func(string) []string) {
	if value != "" {
		r.match(p, value, test)
	}
}

// present reports an empty value as missing, and returns false for it.
func (r *report) present(p *field.Path, value, detail string) bool {
	if value == "" {
		r.required(p, detail)
	}
	return value != ""
}

// needed is match for a value that may not be empty.
func (r *report) needed(p *field.Path, value, detail string, test func(string) []string) {
	if r.present(p, value, detail) {
		r.match(p, value, test)
	}
}

// exactlyOne reports an error unless exactly one of the pointers to structs in the fields of union
// is set.
func (r *report) exactlyOne(p *field.Path, alternatives string, union any) {
	n := 0
	for f, value := range reflect.ValueOf(union).Fields() {
		if f.Type.Kind() == reflect.Pointer && f.Type.Elem().Kind() == reflect.Struct && !value.IsNil() {
			n++
		}
	}
	switch {
	case n == 0:
		r.required(p, "must specify "+alternatives)
	case n > 1:
		r.forbidden(p, "may not specify more than one "+alternatives+", remove all but one")
	}
}

// oneOf reports a value other than the allowed values. An empty value is reported as missing.
func oneOf[T ~string](r *report, p *field.Path, value T, allowed ...T) {
	if value == "" {
		names := make([]string, len(allowed))
		for i, a := range allowed {
			names[i] = string(a)
		}
		r.required(p, "must be one of "+strings.Join(names, ", "))
		return
	}
	optionalOneOf(r, p, &value, allowed...)
}

// optionalOneOf is oneOf for an optional field.
func optionalOneOf[T ~string](r *report, p *field.Path, value *T, allowed ...T) {
	if value != nil && !slices.Contains(allowed, *value) {
		err := field.NotSupported(p, shorten(string(*value)), allowed)
		err.Detail = didYouMean(err.Detail, string(*value), allowed)
		r.errs = append(r.errs, err)
	}
}

// didYouMean adds the nearest allowed value to detail, if any is near.
func didYouMean[T ~string](detail, value string, allowed []T) string {
	if name := spelling.Nearest(value, allowed); name != "" {
		detail += fmt.Sprintf(", did you mean %q?", name)
	}
	return detail
}

// noVolume reports the name of an unknown volume.
func (r *report) noVolume(p *field.Path, name string, volumes map[string]*v1.Volume) {
	err := field.NotFound(p, shorten(name))
	err.Detail = didYouMean("spec.volumes has no volume of this name", name, sortedKeys(volumes))
	r.errs = append(r.errs, err)
}

// unique reports a name already in seen, and adds new names. Missing names are reported elsewhere.
func (r *report) unique(p *field.Path, seen used, name string) {
	if seen[name] && name != "" {
		r.duplicate(p, name)
	}
	seen[name] = true
}

// noBackstep reports a path with an element "..". Paths from manifests must never leave their
// folder.
func (r *report) noBackstep(p *field.Path, path string) {
	if slices.Contains(strings.FieldsFunc(path, func(c rune) bool { return c == '/' || c == '\\' }), "..") {
		r.invalid(p, path, "must not contain '..'")
	}
	r.noControl(p, path)
}

// descending reports an absolute path or a path with an element "..".
func (r *report) descending(p *field.Path, path string) {
	if strings.HasPrefix(path, "/") || strings.HasPrefix(path, "\\") {
		r.invalid(p, path, "must be a relative path")
	}
	r.noBackstep(p, path)
}

// noControl reports control characters, which are invalid in paths and names.
func (r *report) noControl(p *field.Path, text string) {
	if i := strings.IndexFunc(text, func(c rune) bool { return c < ' ' || c == 0x7f }); i >= 0 {
		r.hidden(p, fmt.Sprintf("must not contain control characters (byte %d)", i))
	}
}

// noZeros is noZero for a list.
func (r *report) noZeros(p *field.Path, texts []string) {
	for i, text := range texts {
		r.noZero(p.Index(i), text)
	}
}

// noZero reports a text with a zero byte, which cannot be passed to a process.
func (r *report) noZero(p *field.Path, text string) {
	if strings.ContainsRune(text, 0) {
		r.hidden(p, "must not contain a zero byte")
	}
}
