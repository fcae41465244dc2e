package kube

import (
	"net/http"
	"strings"
)

// observer reports every answered request.
type observer struct {
	next    http.RoundTripper
	observe func(verb, resource string, code int)
}

// RoundTrip implements http.RoundTripper.
func (o *observer) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := o.next.RoundTrip(r)
	code := 0
	if err == nil {
		code = resp.StatusCode
	}
	verb, resource := describe(r)
	o.observe(verb, resource, code)
	return resp, err
}

// describe returns the API verb and the resource of a request, such as
// "patch" and "services/status".
func describe(r *http.Request) (verb, resource string) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		parts = parts[3:]
	default:
		return strings.ToLower(r.Method), "other"
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		parts = parts[2:]
	}
	resource = parts[0]
	if len(parts) > 2 {
		resource += "/" + parts[2]
	}
	switch named := len(parts) > 1; {
	case r.Method == http.MethodGet && r.URL.Query().Get("watch") != "":
		return "watch", resource
	case r.Method == http.MethodGet && !named:
		return "list", resource
	case r.Method == http.MethodPost:
		return "create", resource
	case r.Method == http.MethodPut:
		return "update", resource
	}
	return strings.ToLower(r.Method), resource
}
