%% Runs scenarios through OTP's own supervisor and prints what it did: `erl +S 1:1 ... -run conformance main IN OUT`.
%%
%% IN holds terms {scenario, Seed, Sup, Events} (tests/conformance/generate.py writes them), OUT gets one block a
%% scenario. One scheduler: when the run queue is empty and our mailbox too, everything has happened that can happen.
%% Every start waits at a gate, and the gates are opened one by one in the order of their labels, so that supervisors
%% that work at the same time cannot race (a supervisor that is up also waits, for its parent to take notice); tests/conformance/rig.py does the same with ours.
-module(conformance).
-behaviour(supervisor).
-export([main/1, init/1, start/1, start/2, log/2, worker/5]).

-record(child, {id, kind, restart, shutdown, significant, manner, fail_first, fail_again, ignore, hold}).
-record(sup, {id, strategy, intensity, period, auto, children}).

main([In, Out]) ->
    logger:set_primary_config(level, error),
    logger:remove_handler(default),
    ok = logger:add_handler(conformance, ?MODULE, #{}),
    ets:new(updates, [named_table, public]),
    load_everything(),
    {ok, Scenarios} = file:consult(In),
    {ok, File} = file:open(Out, [write, {delayed_write, 1 bsl 20, 500}]),
    Runs = [begin_scenario(S) || S <- Scenarios],
    finish(Runs, File),
    ok = file:close(File),
    halt(0).

%% Whoever waits for the code server is not in the run queue.
load_everything() ->
    lists:foreach(fun(App) ->
        {ok, Modules} = application:get_key(App, modules),
        lists:foreach(fun code:ensure_loaded/1, Modules)
    end, [kernel, stdlib]).

%% A scenario that lets time pass is parked, so that all of them wait at the same time.
begin_scenario({scenario, Seed, Sup, Events}) ->
    Me = self(),
    Pid = spawn_link(fun() -> scenario(Me, Seed, Sup, Events) end),
    {Seed, Pid, await(Pid)}.

await(Pid) ->
    receive
        {Pid, Outcome} -> Outcome
    after 120000 ->
        io:format(standard_error, "stuck: ~p~n", [process_info(Pid, current_stacktrace)]),
        halt(2)
    end.

finish(Runs, File) ->
    case [Run || {_, _, parked} = Run <- Runs] of
        [] ->
            [file:write(File, [io_lib:format("#~b~n", [Seed]), Text]) || {Seed, _, Text} <- Runs];
        _ ->
            timer:sleep(4100),
            finish([resume(Run) || Run <- Runs], File)
    end.

resume({Seed, Pid, parked}) ->
    Pid ! resume,
    {Seed, Pid, await(Pid)};
resume(Done) ->
    Done.

%% One scenario

scenario(Conductor, Seed, #sup{id = Id} = Sup, Events) ->
    put(seed, Seed),
    Driver = self(),
    spawn(fun() ->
        process_flag(trap_exit, true),
        put(seed, Seed), put(driver, Driver),
        Result = supervisor:start_link(?MODULE, {Driver, Seed, "root", Sup}),
        Driver ! {top, Result},
        receive never -> ok end
    end),
    S0 = #{records => [], procs => #{}, pids => #{}, sups => #{}, gates => #{}, stopping => #{}, calls => #{}, early => #{}, names => #{}, dynamic => #{},
           out => [], killed => [], root => Id, n => 0, conductor => Conductor, short => has_short(Sup, Events)},
    S1 = step(settle(S0)),
    S2 = lists:foldl(fun(E, S) -> step(settle(event(E, S))) end, S1, Events),
    S3 = step(finale(S2)),
    Conductor ! {self(), lists:reverse(maps:get(out, S3))}.

has_short(Sup, Events) ->
    Text = lists:flatten(io_lib:format("~0p", [{Sup, Events}])),
    string:find(Text, ",40,") =/= nomatch.

%% Starting, inside the supervisor's own process

init({Driver, Seed, Path, Sup}) ->
    case get(path) of
        undefined ->
            put(path, Path), put(driver, Driver), put(seed, Seed),
            note({sup, Sup, Path, self()}),
            {ok, flags(Sup)};
        _ ->
            [{_, [New | Rest]}] = ets:lookup(updates, self()),
            ets:insert(updates, {self(), Rest}),
            {ok, flags(New)}
    end.

flags(#sup{strategy = S, intensity = I, period = P, auto = A, children = Cs}) ->
    {#{strategy => S, intensity => I, period => P, auto_shutdown => A}, [spec(C) || C <- Cs]}.

spec(#child{id = Id, restart = R, shutdown = Sh, significant = Sg, kind = K} = C) ->
    Type = case K of worker -> worker; _ -> supervisor end,
    #{id => Id, start => {?MODULE, start, [C]}, restart => R, shutdown => Sh, significant => Sg, type => Type}.

start(C) -> start_key(C, atom_to_list(C#child.id), C#child.id).
start(C, K) -> start_key(C, lists:concat([C#child.id, "#", K]), {C#child.id, K}).

start_key(C, Name, Key) ->
    N = case get({attempts, Key}) of undefined -> 1; Before -> Before + 1 end,
    put({attempts, Key}, N),
    Short = lists:concat([Name, ".", N]),
    Label = lists:concat([get(path), "/", Short]),
    Result = case C#child.kind of
        worker -> start_worker(C, Key, Label, N);
        Sup -> supervisor:start_link(?MODULE, {get(driver), get(seed), Label, Sup})
    end,
    case {C#child.kind, Result} of
        {_, ignore} -> get(driver) ! {rec, get(path), ["start ", Short, " ignore"]};
        {_, {error, _}} -> get(driver) ! {rec, get(path), ["start ", Short, " error"]};
        {worker, _} -> ok;
        {_, {ok, Pid}} ->
            note({started, Pid, Label, get(path), Key, C}),
            pass_gate(Label, Key, false)
    end,
    Result.

start_worker(C, Key, Label, N) ->
    pass_gate(Label, Key, draw("hold:" ++ Label) < C#child.hold),
    Fail = case N of 1 -> C#child.fail_first; _ -> C#child.fail_again end,
    case draw(Label) of
        H when H < Fail -> {error, boom};
        H when H < Fail + C#child.ignore -> ignore;
        _ ->
            Pid = spawn_link(?MODULE, worker, [get(driver), self(), Label, Key, C#child.manner]),
            receive {up, Pid} -> ok end,
            note({started, Pid, Label, get(path), Key, C}),
            {ok, Pid}
    end.

pass_gate(Label, Key, Held) ->
    get(driver) ! {gate, Label, self(), Key, Held},
    receive {grant, Label} -> ok end.

%% Say so to the driver, and go on when it watches the new process.
note(Message) ->
    get(driver) ! {note, self(), Message},
    receive noted -> ok end.

draw(Text) -> erlang:crc32(lists:concat([get(seed), ":", Text])) rem 100.

worker(Driver, Parent, Label, Key, Manner) ->
    process_flag(trap_exit, true),
    Parent ! {up, self()},
    work(Driver, Label, Key, Manner).

work(Driver, Label, Key, Manner) ->
    receive
        {die, Reason} -> exit(Reason);
        {'EXIT', _, _} -> end_work(Driver, Label, Key, Manner);
        _ -> work(Driver, Label, Key, Manner)
    end.

end_work(_, _, _, prompt) -> exit(shutdown);
end_work(_, _, _, rude) -> exit(crash);
end_work(_, _, _, plain) -> exit(normal);
end_work(Driver, Label, Key, Manner) ->
    Driver ! {stopping, Label, self(), Key, Manner},
    receive
        open when Manner =:= slow -> exit(shutdown);
        {die, Reason} -> exit(Reason)
    end.

log(#{msg := {report, #{label := {supervisor, Context}, report := Report}}}, _) when Context =/= progress ->
    Reason = proplists:get_value(reason, Report),
    Offender = proplists:get_value(offender, Report),
    Text = ["report ", atom_to_list(Context), " ", reason(Reason), " ", atom_to_list(proplists:get_value(id, Offender))],
    Times = proplists:get_value(nb_children, Offender, 1),
    [get(driver) ! {rec, get(path), Text} || _ <- lists:seq(1, Times)];
log(_, _) ->
    ok.

reason({shutdown, {failed_to_start_child, Id, R}}) -> lists:concat(["failed to start child ", Id, ": ", reason(R)]);
reason({failed_to_start_child, Id, R}) -> lists:concat(["failed to start child ", Id, ": ", reason(R)]);
reason({shutdown, _}) -> "{shutdown}";
reason(R) when is_atom(R) -> atom_to_list(R);
reason(R) -> lists:flatten(io_lib:format("~0p", [R])).

%% Waiting until nothing moves

settle(S) ->
    erlang:yield(),
    case drain(S, false) of
        {true, S1} -> settle(S1);
        {false, S1} ->
            case erlang:statistics(run_queue) =:= 0 andalso not waits_for_budget(S1) of
                true -> grant(S1);
                false -> receive after 1 -> settle(S1) end
            end
    end.

grant(#{gates := Gates} = S) ->
    case lists:sort([L || {L, {_, _, false}} <- maps:to_list(Gates)]) of
        [] -> S;
        [Label | _] -> settle(open_gate(Label, S))
    end.

open_gate(Label, #{gates := Gates} = S) ->
    {Pid, _, _} = maps:get(Label, Gates),
    Pid ! {grant, Label},
    S#{gates := maps:remove(Label, Gates)}.

waits_for_budget(#{short := false}) -> false;
waits_for_budget(#{procs := Procs}) ->
    lists:any(fun(Pid) -> waits_for_budget(Pid, Procs) end, [P || {P, {_, _, _, #child{kind = #sup{}}}} <- maps:to_list(Procs)] ++ [P || {P, {_, _, root, _}} <- maps:to_list(Procs)]).

waits_for_budget(Sup, Procs) ->
    case process_info(Sup, [current_function, monitors]) of
        [{current_function, {supervisor, F, _}}, {monitors, Ms}] when F =:= shutdown; F =:= wait_dynamic_children ->
            lists:any(fun({process, P}) -> is_short(maps:get(P, Procs, none)) end, Ms);
        undefined -> true;
        _ -> false
    end.

is_short({_, _, _, #child{shutdown = 40}}) -> true;
is_short(_) -> false.

drain(S, Any) ->
    receive
        resume -> exit(unexpected);
        Message -> drain(take(Message, S), true)
    after 0 -> {Any, S}
    end.

take({note, From, Message}, S) ->
    S1 = take(Message, S),
    From ! noted,
    S1;
take({rec, Group, Text}, S) -> record(Group, Text, S);
take({sup, Sup, Path, Pid}, #{sups := Sups, procs := Procs, dynamic := Dynamic} = S) ->
    monitor(process, Pid),
    IsDynamic = Sup#sup.strategy =:= simple_one_for_one,
    S1 = S#{sups := Sups#{Sup#sup.id => Pid}, dynamic := Dynamic#{Pid => IsDynamic}},
    case Path of
        "root" -> S1#{procs := Procs#{Pid => {"root", "", root, none}}};
        _ -> S1#{procs := Procs#{Pid => {Path, none, starting, #child{kind = #sup{}}}}}
    end;
take({started, Pid, Label, Group, Key, C}, #{procs := Procs, pids := Pids, early := Early, names := Names} = S0) ->
    S = record(Group, ["start ", short(Label), " ok"], S0),
    S1 = S#{procs := Procs#{Pid => {Label, Group, Key, C}}, pids := Pids#{Key => Pid}, names := Names#{Pid => short(Label)}},
    case {C#child.kind, maps:get(Pid, Early, none)} of
        {worker, _} -> monitor(process, Pid), S1;
        {_, none} -> S1;
        {_, Reason} -> ended(Pid, Reason, S1)
    end;
take({gate, Label, Pid, Key, Held}, #{gates := Gates} = S) -> S#{gates := Gates#{Label => {Pid, Key, Held}}};
take({stopping, Label, Pid, Key, Manner}, #{stopping := St} = S) -> S#{stopping := St#{Label => {Pid, Key, Manner}}};
take({top, _}, S) -> S;
take({'DOWN', Ref, process, Pid, Reason}, #{calls := Calls} = S) ->
    case maps:take(Ref, Calls) of
        {{N, _}, Rest} -> answer(N, "gone", S#{calls := Rest});
        error -> ended(Pid, Reason, S)
    end;
take({Ref, Reply}, #{calls := Calls} = S) ->
    case maps:take(Ref, Calls) of
        {{N, Request}, Rest} ->
            demonitor(Ref, [flush]),
            answer(N, reply(Request, Reply, S), S#{calls := Rest});
        error -> S
    end.

ended(Pid, Reason, #{procs := Procs, stopping := St, gates := Gates} = S) ->
    {{Label, Group, Key, C}, Rest} = maps:take(Pid, Procs),
    S1 = S#{procs := Rest, stopping := maps:remove(Label, St), gates := maps:filter(fun(_, {P, _, _}) -> P =/= Pid end, Gates)},
    Short = short(Label),
    case {Key, C} of
        {root, _} -> record("", ["down ", reason(Reason)], S1);
        {starting, _} -> cut(Label, Reason, S1#{early := (maps:get(early, S))#{Pid => Reason}});
        {_, #child{kind = worker}} -> record(Group, ["end ", Short, " ", reason(Reason)], S1);
        _ -> cut(Label, Reason, record(Group, ["end ", Short, " ", reason(Reason)], S1))
    end.

%% OTP leaves what is below a killed supervisor to itself; ours kills and waits for it. So it is not compared.
cut(Label, killed, #{procs := Procs, killed := Killed, gates := Gates} = S) ->
    Below = Label ++ "/",
    [exit(P, kill) || {P, {L, _, _, _}} <- maps:to_list(Procs), lists:prefix(Below, L)],
    S#{killed := [Below | Killed], gates := maps:filter(fun(L, _) -> not lists:prefix(Below, L) end, Gates)};
cut(_, _, S) -> S.

record(Group, Text, #{records := Records, killed := Killed} = S) ->
    case lists:any(fun(K) -> lists:prefix(K, Group ++ "/") end, Killed) of
        true -> S;
        false -> S#{records := [{Group, lists:flatten(Text)} | Records]}
    end.

answer(N, Text, S) -> record("~calls", [io_lib:format("~3..0b ", [N]), Text], S).

%% Events

event(wait, #{conductor := Conductor} = S) ->
    Conductor ! {self(), parked},
    receive resume -> S end;
event({die, Key, Reason}, #{pids := Pids, procs := Procs} = S) ->
    Pid = maps:get(Key, Pids, none),
    case maps:is_key(Pid, Procs) of
        true when Reason =:= kill -> exit(Pid, kill);
        true -> Pid ! {die, Reason};
        false -> ok
    end,
    S;
event({open, Key}, #{gates := Gates, stopping := St} = S) ->
    case lists:sort([L || {L, {_, K, true}} <- maps:to_list(Gates), K =:= Key]) of
        [Label | _] -> open_gate(Label, S);
        [] ->
            [P ! open || {_, {P, K, slow}} <- maps:to_list(St), K =:= Key],
            S
    end;
event({call, Id, Request}, #{n := N0, sups := Sups} = S0) ->
    N = N0 + 1,
    S = S0#{n := N},
    case {maps:get(Id, Sups, none), term(Request, S)} of
        {_, noref} -> answer(N, "noref", S);
        {none, _} -> answer(N, "gone", S);
        {Pid, {update, Sup}} -> update(Pid, Sup, N, S);
        {Pid, Term} ->
            Ref = monitor(process, Pid),
            Pid ! {'$gen_call', {self(), Ref}, Term},
            S#{calls := (maps:get(calls, S))#{Ref => {N, books(Request, Pid, S)}}}
    end.

books(count_children, Pid, #{dynamic := Dynamic}) ->
    case maps:get(Pid, Dynamic) of true -> count_dynamic; false -> count_children end;
books(Request, _, _) ->
    Request.

%% code_change, as sys:change_code does it, but queued: the supervisor may be busy.
update(Pid, Sup, N, #{calls := Calls} = S) ->
    case ets:lookup(updates, Pid) of
        [] -> ets:insert(updates, {Pid, [Sup]});
        [{_, Before}] -> ets:insert(updates, {Pid, Before ++ [Sup]})
    end,
    Ref = monitor(process, Pid),
    Pid ! {system, {self(), make_ref()}, suspend},
    Pid ! {system, {self(), Ref}, {change_code, ?MODULE, undefined, []}},
    Pid ! {system, {self(), make_ref()}, resume},
    S#{calls := Calls#{Ref => {N, update}}}.

term({start_child, C}, _) -> {start_child, spec(C)};
term({start_dynamic, K}, _) -> {start_child, [K]};
term({terminate_child, {_, _} = Key}, #{pids := Pids}) ->
    case maps:get(Key, Pids, none) of none -> noref; Pid -> {terminate_child, Pid} end;
term(Request, _) -> Request.

reply(which_children, Rows, S) -> rows(Rows, S);
reply(count_children, Counts, _) -> counts(Counts);
reply(count_dynamic, Counts, _) -> counts(lists:keydelete(active, 1, Counts));
reply(_, ok, _) -> "ok";
reply(_, {ok, undefined}, _) -> "ok ignored";
reply(_, {ok, Pid}, S) when is_pid(Pid) -> "ok " ++ name(Pid, S);
reply(_, {error, {already_started, Pid}}, S) -> "error already_started " ++ name(Pid, S);
reply({start_child, _}, {error, {bad_combination, _}}, _) -> "error invalid";
reply({start_child, _}, {error, {What, _Child}}, _) -> "error start_failed " ++ reason(What);
reply(_, {error, What}, _) ->
    Known = [already_present, running, restarting, not_found, simple_one_for_one],
    case lists:member(What, Known) of
        true -> "error " ++ atom_to_list(What);
        false -> "error start_failed " ++ reason(What)
    end.

%% The children of a dynamic supervisor come in no order.
rows([{undefined, _, _, _} | _] = Rows, S) -> lists:join(" ", lists:sort([row(R, S) || R <- Rows]));
rows(Rows, S) -> lists:join(" ", [row(R, S) || R <- Rows]).

row({Id, undefined, Type, _}, _) -> lists:concat([Id, "=undefined/", Type]);
row({undefined, restarting, Type, _}, _) -> lists:concat(["restarting/", Type]);
row({Id, restarting, Type, _}, _) -> lists:concat([Id, "=restarting/", Type]);
row({_, Pid, Type, _}, S) -> lists:concat([name(Pid, S), "/", Type]).

counts(Counts) -> lists:join(" ", [lists:concat([K, "=", V]) || {K, V} <- Counts]).

name(Pid, #{names := Names}) -> maps:get(Pid, Names).

short(Label) -> lists:last(string:split(Label, "/", all)).

%% What a step printed

step(#{records := Records, out := Out} = S) ->
    {Views, S1} = views(S),
    Groups = lists:usort([G || {G, _} <- Records]),
    Lines = [[G, "\t", T, "\n"] || G <- Groups, T <- group(G, lists:reverse(Records), S)],
    S1#{records := [], out := ["-\n", Views, Lines | Out]}.

group("~calls", Records, _) -> lists:sort([T || {"~calls", T} <- Records]);
group(G, Records, _) -> [T || {H, T} <- Records, G =:= H].

views(#{sups := Sups, procs := Procs} = S) ->
    Alive = lists:sort([{element(1, maps:get(P, Procs)), P} || {_, P} <- maps:to_list(Sups), maps:is_key(P, Procs)]),
    {[[Path, "\tview ", view(P, S), "\n"] || {Path, P} <- Alive], S}.

view(Pid, S) ->
    case process_info(Pid, current_function) of
        {current_function, {gen_server, loop, _}} ->
            Rows = supervisor:which_children(Pid),
            [rows(Rows, S), "; ", counts(active(Rows, supervisor:count_children(Pid)))];
        _ -> "busy"
    end.

%% OTP 25 never forgets a dynamic child that is terminated by hand while it is restarting: `active` stays one too low
%% for good. That is a slip, not a semantics: for dynamic supervisors the live children of which_children count here, and
%% an answer that had to wait goes without.
active([{undefined, _, _, _} | _] = Rows, Counts) ->
    lists:keyreplace(active, 1, Counts, {active, length([P || {_, P, _, _} <- Rows, is_pid(P)])});
active([], Counts) -> lists:keyreplace(active, 1, Counts, {active, 0});
active(_, Counts) -> Counts.

%% The end: the outermost supervisor is told to stop, and whatever it waits for is let go, one by one.

finale(#{root := Id, sups := Sups} = S) ->
    case maps:get(Id, Sups, none) of
        none -> S;
        Pid ->
            {parent, Parent} = {parent, parent(Pid)},
            Pid ! {'EXIT', Parent, shutdown},
            let_go(settle(S))
    end.

parent(Pid) ->
    case process_info(Pid, dictionary) of
        {dictionary, D} -> hd(proplists:get_value('$ancestors', D));
        undefined -> none
    end.

let_go(#{gates := Gates, stopping := St} = S) ->
    case {lists:sort(maps:keys(Gates)), lists:sort(maps:keys(St))} of
        {[Label | _], _} -> let_go(settle(open_gate(Label, S)));
        {[], [Label | _]} ->
            {Pid, _, _} = maps:get(Label, St),
            exit(Pid, kill),
            let_go(settle(S));
        _ -> S
    end.
