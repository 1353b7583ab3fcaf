// SPDX-License-Identifier: Apache-2.0

package nodeserver

import (
	"fmt"
	"io/fs"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Limits of a query, as in the kubelet (1.36).
const (
	maxQueryServices = 4
	maxQueryLines    = 100_000
	maxServiceName   = 256
)

// serviceName is a name that is safe in a file name and in an argument after an equals sign.
var serviceName = regexp.MustCompile(`^[a-zA-Z0-9_.:@-]+$`)

// nodeLogQuery selects log lines of services, or a file (KEP-2258).
type nodeLogQuery struct {
	services     []string
	file         string // path below the folder, for a query with a slash
	since, until time.Time
	tail         *int
	boot         *int
	pattern      *regexp.Regexp
}

// parseNodeLogQuery decodes the parameters of /logs/. A parameter that is not of its type is an error.
func parseNodeLogQuery(values url.Values) (q nodeLogQuery, err error) {
	for _, name := range values["query"] {
		switch {
		case !strings.ContainsAny(name, `/\`):
			q.services = append(q.services, name)
		case q.file != "":
			return q, fmt.Errorf("query: one file at most")
		default:
			q.file = strings.TrimLeft(name, "/")
		}
	}
	for name, t := range map[string]*time.Time{"sinceTime": &q.since, "untilTime": &q.until} {
		if text := values.Get(name); text != "" {
			if *t, err = time.Parse(time.RFC3339, text); err != nil {
				return q, fmt.Errorf("%s: want a time of RFC 3339, such as 2026-01-02T15:04:05Z", name)
			}
		}
	}
	for name, n := range map[string]**int{"tailLines": &q.tail, "boot": &q.boot} {
		if text := values.Get(name); text != "" {
			number, err := strconv.Atoi(text)
			if err != nil {
				return q, fmt.Errorf("%s: want a number", name)
			}
			*n = &number
		}
	}
	if text := values.Get("pattern"); text != "" {
		if q.pattern, err = regexp.Compile(text); err != nil {
			return q, fmt.Errorf("pattern: %w", err)
		}
	}
	return q, nil
}

// check returns an error if the query cannot be answered.
func (q *nodeLogQuery) check() error {
	switch {
	case q.file == "" && len(q.services) == 0:
		return fmt.Errorf("query: want the name of a service, or the path of a file with a slash")
	case q.file != "" && len(q.services) > 0:
		return fmt.Errorf("query: want services or a file, not both")
	case q.file != "" && !fs.ValidPath(strings.TrimSuffix(q.file, "/")):
		return fmt.Errorf("query: %q is no path below the folder of logs", q.file)
	case q.file != "" && (!q.since.IsZero() || !q.until.IsZero() || q.boot != nil):
		return fmt.Errorf("sinceTime, untilTime and boot are for services, not for files")
	case len(q.services) > maxQueryServices:
		return fmt.Errorf("query: want %d services at most", maxQueryServices)
	case !q.since.IsZero() && !q.until.IsZero() && q.until.Before(q.since):
		return fmt.Errorf("untilTime is before sinceTime")
	case q.tail != nil && (*q.tail < 0 || *q.tail > maxQueryLines):
		return fmt.Errorf("tailLines: want 0 to %d", maxQueryLines)
	case q.boot != nil && *q.boot > 0:
		return fmt.Errorf("boot: want 0 for the current boot, or the negative number of an earlier one")
	}
	for _, name := range q.services {
		if len(name) > maxServiceName || !serviceName.MatchString(name) {
			return fmt.Errorf("query: %q is no name of a service", name)
		}
	}
	return nil
}

// journalTime is a time for journalctl, which takes times without a zone for local ones.
const journalTime = "2006-01-02 15:04:05.000000 UTC"

// arguments returns the arguments of journalctl for units. Option and value are one argument, so
// that a value cannot be read as another option.
func (q *nodeLogQuery) arguments(units []string) []string {
	args := []string{"--utc", "--no-pager", "--output=short-precise"}
	if !q.since.IsZero() {
		args = append(args, "--since="+q.since.UTC().Format(journalTime))
	}
	if !q.until.IsZero() {
		args = append(args, "--until="+q.until.UTC().Format(journalTime))
	}
	if q.tail != nil {
		args = append(args, "--lines="+strconv.Itoa(*q.tail))
	}
	for _, unit := range units {
		args = append(args, "--unit="+unit)
	}
	if q.pattern != nil {
		args = append(args, "--grep="+q.pattern.String())
	}
	if q.boot != nil {
		args = append(args, "--boot="+strconv.Itoa(*q.boot))
	}
	return args
}
