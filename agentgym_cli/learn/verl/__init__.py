"""verl 0.9.1 on Ray with vLLM. The only place that knows any of them; nothing here is imported where they are not used."""
