package sock

import (
	"net/http"
	"os"
	"runtime/pprof"
	"strconv"
	"time"
)

// ProfileEnv is the environment variable that, set to "true", adds
// /debug/pprof/profile to a daemon's socket. It is off unless somebody who can
// change the pod switches it on, and then answers the socket's readers only.
const ProfileEnv = "VIPOD_PROFILE"

const (
	profileSeconds    = 10
	maxProfileSeconds = 25 // below the time that an answer may take
)

// withProfile adds the profile where it is asked for.
func withProfile(h http.Handler) http.Handler {
	if os.Getenv(ProfileEnv) != "true" {
		return h
	}
	mux := http.NewServeMux()
	mux.Handle("/", h)
	mux.HandleFunc("GET /debug/pprof/profile", answerProfile)
	return mux
}

// answerProfile answers with where the processor's time went during the next
// ?seconds=, as "go tool pprof" reads it.
func answerProfile(w http.ResponseWriter, req *http.Request) {
	seconds, err := strconv.Atoi(req.FormValue("seconds"))
	if err != nil {
		seconds = profileSeconds
	}
	if err := pprof.StartCPUProfile(w); err != nil {
		http.Error(w, err.Error(), http.StatusConflict) // another one runs
		return
	}
	defer pprof.StopCPUProfile()
	select {
	case <-req.Context().Done():
	case <-time.After(time.Duration(max(1, min(seconds, maxProfileSeconds))) * time.Second):
	}
}
