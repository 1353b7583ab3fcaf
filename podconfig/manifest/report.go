// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// report collects what is wrong with a pod. Only the methods with a value repeat it, shortened; they are for names,
// paths and numbers, never for what may be a secret.
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

// hidden reports a value without repeating it.
func (r *report) hidden(p *field.Path, detail string) {
	r.errs = append(r.errs, field.Invalid(p, field.OmitValueType{}, detail))
}

func (r *report) duplicate(p *field.Path, value string) {
	r.errs = append(r.errs, field.Duplicate(p, shorten(value)))
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
		r.invalid(p, value, c)
	}
}

// exactlyOne reports unless exactly one of the alternatives is set.
func (r *report) exactlyOne(p *field.Path, what string, set ...bool) {
	n := 0
	for _, s := range set {
		if s {
			n++
		}
	}
	switch {
	case n == 0:
		r.required(p, "must specify "+what)
	case n > 1:
		r.forbidden(p, "may not specify more than one "+what)
	}
}

// oneOf reports a value that is not among those allowed. An empty value is reported as missing.
func oneOf[T ~string](r *report, p *field.Path, value T, allowed ...T) {
	if value == "" {
		r.required(p, "")
		return
	}
	optionalOneOf(r, p, &value, allowed...)
}

// optionalOneOf is oneOf for a field that may be absent.
func optionalOneOf[T ~string](r *report, p *field.Path, value *T, allowed ...T) {
	if value != nil && !slices.Contains(allowed, *value) {
		r.errs = append(r.errs, field.NotSupported(p, shorten(string(*value)), allowed))
	}
}

// unique reports name if it is in seen already, else adds it. A missing name is reported as that elsewhere.
func (r *report) unique(p *field.Path, seen map[string]bool, name string) {
	if seen[name] && name != "" {
		r.duplicate(p, name)
	}
	seen[name] = true
}

// noBackstep reports a path with an element "..": paths from manifests never leave the folder they are put into.
func (r *report) noBackstep(p *field.Path, path string) {
	if slices.Contains(strings.FieldsFunc(path, func(c rune) bool { return c == '/' || c == '\\' }), "..") {
		r.invalid(p, path, "must not contain '..'")
	}
	r.noControl(p, path)
}

// descending reports a path that is absolute or has an element "..".
func (r *report) descending(p *field.Path, path string) {
	if strings.HasPrefix(path, "/") || strings.HasPrefix(path, "\\") {
		r.invalid(p, path, "must be a relative path")
	}
	r.noBackstep(p, path)
}

// noControl reports characters that no path or name of an operating system should have.
func (r *report) noControl(p *field.Path, text string) {
	if i := strings.IndexFunc(text, func(c rune) bool { return c < ' ' || c == 0x7f }); i >= 0 {
		r.hidden(p, fmt.Sprintf("must not contain control characters (byte %d)", i))
	}
}

// noZero reports a text that cannot be passed to a process.
func (r *report) noZero(p *field.Path, text string) {
	if strings.ContainsRune(text, 0) {
		r.hidden(p, "must not contain a zero byte")
	}
}
